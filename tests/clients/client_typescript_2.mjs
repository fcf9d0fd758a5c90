// The same with the TypeScript client 2: client_typescript_2.mjs URL MODE CASES
// (legacy, auto, or a revision to insist on).
import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [url, mode, casesPath] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(casesPath, 'utf8'));
const versionNegotiation = { mode: mode === 'legacy' || mode === 'auto' ? mode : { pin: mode } };
const client = new Client({ name: 'clients-test', version: '2' }, { versionNegotiation });
const [, program, config] = url.split(':');
const transport = url.startsWith('stdio:')
  ? new StdioClientTransport({ command: program, args: ['stdio', '--log-format', 'json', '--config', config], env: process.env })
  : new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const { tools } = await client.listTools();
const outcomes = [];
for (const { tool, arguments: args } of cases) {
  try {
    outcomes.push(await client.callTool({ name: tool, arguments: args }, { timeout: 20000 }));
  } catch (error) {
    outcomes.push(typeof error.code === 'number' ? { rpc_error: error.code, message: error.message } : { broke: String(error) });
  }
}
const version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ version, server: client.getServerVersion()?.name, tools, outcomes }));
await client.close();
