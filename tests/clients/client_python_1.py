"""The same with the Python SDK 1: client_python_1.py URL MODE CASES (one mode: legacy)."""

import asyncio
import datetime
import json
import os
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


def connect(url):
    if not url.startswith("stdio:"):
        return streamablehttp_client(url)
    _, program, config = url.split(":")
    arguments = ["stdio", "--log-format", "json", "--config", config]
    return stdio_client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))


async def main():
    url, _mode, cases = sys.argv[1:]
    cases = json.load(open(cases))
    async with connect(url) as (read, write, *_):
        timeout = datetime.timedelta(seconds=20)
        async with ClientSession(read, write, read_timeout_seconds=timeout) as session:
            hello = await session.initialize()
            tools = await session.list_tools()
            outcomes = []
            for case in cases:
                try:
                    result = await session.call_tool(case["tool"], case["arguments"])
                    outcomes.append(result.model_dump(mode="json", by_alias=True, exclude_unset=True))
                except McpError as error:
                    outcomes.append({"rpc_error": error.error.code, "message": error.error.message})
                except Exception as error:
                    outcomes.append({"broke": f"{type(error).__name__}: {error}"})
            print(
                json.dumps(
                    {
                        "version": hello.protocolVersion,
                        "server": hello.serverInfo.name,
                        "tools": [t.model_dump(mode="json", by_alias=True, exclude_unset=True) for t in tools.tools],
                        "outcomes": outcomes,
                    }
                )
            )


asyncio.run(main())
