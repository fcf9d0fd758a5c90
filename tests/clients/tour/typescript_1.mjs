// The tour with the TypeScript SDK 1: typescript_1.mjs URL MODE (one mode: legacy).
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { tour } from './tour.mjs';

const asked = [];
const client = new Client({ name: 'tour', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, request => {
  asked.push(request.params.message);
  return { action: 'accept', content: { name: 'Ada' } };
});
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);
console.log(JSON.stringify({ version: transport.protocolVersion, ...(await tour(client, asked)) }));
await client.close();
