// The same with the TypeScript SDK 1: typescript_oauth_1.mjs URL MODE (one mode: legacy).
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Ada, agreed, noting, tour } from './provider.mjs';

const [url] = process.argv.slice(2);
const ada = new Ada();
let client, transport;
await agreed(
  ada,
  brought => transport.finishAuth(brought.get('code')),
  async () => {
    client = new Client({ name: 'clients-test', version: '1' });
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: ada, fetch: noting(ada.wire) });
    await client.connect(transport);
  },
);
const finish = brought => transport.finishAuth(brought.get('code'));
const call = (name, args) =>
  agreed(ada, finish, async () => (await client.callTool({ name, arguments: args })).content[0].text);
const names = () => agreed(ada, finish, async () => (await client.listTools()).tools.map(tool => tool.name).sort());
const seen = await tour(names, call);
console.log(JSON.stringify({ version: transport.protocolVersion, wire: ada.wire, asked: ada.asked, granted: ada.granted, ...seen }));
await client.close();
