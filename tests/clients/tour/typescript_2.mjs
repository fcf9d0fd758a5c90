// The tour with the TypeScript client 2: typescript_2.mjs URL MODE
// (legacy, auto, or a revision to insist on).
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { tour } from './tour.mjs';

const [url, mode] = process.argv.slice(2);
const asked = [];
const versionNegotiation = { mode: mode === 'legacy' || mode === 'auto' ? mode : { pin: mode } };
const client = new Client({ name: 'tour', version: '2' }, { versionNegotiation, capabilities: { elicitation: { form: {} } } });
client.setRequestHandler('elicitation/create', request => {
  asked.push(request.params.message);
  return { action: 'accept', content: { name: 'Ada' } };
});
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ version, ...(await tour(client, asked)) }));
await client.close();
