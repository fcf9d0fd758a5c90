// The same with the TypeScript SDK 1: client_typescript_1.mjs URL MODE CASES (one mode: legacy).
import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [url, , casesPath] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(casesPath, 'utf8'));
const client = new Client({ name: 'clients-test', version: '1' });
const [, program, config] = url.split(':');
const transport = url.startsWith('stdio:')
  ? new StdioClientTransport({ command: program, args: ['stdio', '--log-format', 'json', '--config', config], env: process.env })
  : new StreamableHTTPClientTransport(new URL(url));
// Told by the client to every transport that wants to know; the one over pipes has no use for it.
transport.setProtocolVersion ??= version => (transport.protocolVersion = version);
await client.connect(transport);
const { tools } = await client.listTools();
const outcomes = [];
for (const { tool, arguments: args } of cases) {
  try {
    outcomes.push(await client.callTool({ name: tool, arguments: args }, undefined, { timeout: 20000 }));
  } catch (error) {
    outcomes.push(typeof error.code === 'number' ? { rpc_error: error.code, message: error.message } : { broke: String(error) });
  }
}
console.log(JSON.stringify({ version: transport.protocolVersion, server: client.getServerVersion()?.name, tools, outcomes }));
await client.close();
