"""Drive glossator with the Python SDK 2: client_python_2.py URL MODE CASES.

For URL may stand `stdio:PROGRAM:CONFIG`, to be started and spoken with over pipes.

One JSON document on standard output: what was negotiated, the tools, and the
outcome of every case. Judging is compare.py's part.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError


async def main():
    url, mode, cases = sys.argv[1:]
    cases = json.load(open(cases))
    server = url
    if url.startswith("stdio:"):
        _, program, config = url.split(":")
        arguments = ["stdio", "--log-format", "json", "--config", config]
        server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with Client(server, mode=mode, read_timeout_seconds=20) as client:
        tools = await client.list_tools()
        outcomes = []
        for case in cases:
            try:
                result = await client.call_tool(case["tool"], case["arguments"])
                outcomes.append(result.model_dump(mode="json", by_alias=True, exclude_unset=True))
            except MCPError as error:
                outcomes.append({"rpc_error": error.error.code, "message": error.error.message})
            except Exception as error:
                outcomes.append({"broke": f"{type(error).__name__}: {error}"})
        print(
            json.dumps(
                {
                    "version": client.protocol_version,
                    "server": client.server_info.name if client.server_info else None,
                    "tools": [t.model_dump(mode="json", by_alias=True, exclude_unset=True) for t in tools.tools],
                    "outcomes": outcomes,
                }
            )
        )


asyncio.run(main())
