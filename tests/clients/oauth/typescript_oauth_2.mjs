// The same with the TypeScript client 2: typescript_oauth_2.mjs URL MODE (legacy, or a revision to insist on).
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Ada, agreed, noting, tour } from './provider.mjs';

const [url, mode] = process.argv.slice(2);
const ada = new Ada();
const versionNegotiation = { mode: mode === 'legacy' ? mode : { pin: mode } };
const open = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: ada, fetch: noting(ada.wire) });
let client, transport;
await agreed(
  ada,
  brought => transport.finishAuth(brought),
  async () => {
    client = new Client({ name: 'clients-test', version: '2' }, { versionNegotiation });
    transport = open();
    await client.connect(transport);
  },
);
const finish = brought => transport.finishAuth(brought);
const call = (name, args) =>
  agreed(ada, finish, async () => (await client.callTool({ name, arguments: args })).content[0].text);
const names = () =>
  agreed(ada, finish, async () => (await client.listTools(undefined, { cacheMode: 'bypass' })).tools.map(tool => tool.name).sort());
const seen = await tour(names, call);
const version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ version, wire: ada.wire, asked: ada.asked, granted: ada.granted, ...seen }));
await client.close();
