"""The tour with the Python SDK 1: python_1.py URL MODE (one mode: legacy)."""

import asyncio
import datetime
import json
import sys

from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    url, _mode = sys.argv[1:]
    asked = []

    async def answer(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with streamablehttp_client(url) as (read, write, *_):
        timeout = datetime.timedelta(seconds=20)
        async with ClientSession(read, write, read_timeout_seconds=timeout, elicitation_callback=answer) as session:
            hello = await session.initialize()
            prompt = await session.get_prompt("plan_day", {"city": "oslo"})
            found = await session.read_resource(AnyUrl("weather://stations/bergen"))
            try:
                missing = (await session.read_resource(AnyUrl("weather://stations/atlantis"))).contents
            except McpError as error:
                missing = error.error.code
            of_prompt = await session.complete(
                types.PromptReference(type="ref/prompt", name="plan_day"), {"name": "city", "value": "t"}
            )
            template = types.ResourceTemplateReference(type="ref/resource", uri="weather://stations/{city}")
            of_template = await session.complete(template, {"name": "city", "value": "b"})
            greeting = await session.call_tool("greet", {"name": "Grace"})
            print(
                json.dumps(
                    {
                        "version": hello.protocolVersion,
                        "prompts": [p.name for p in (await session.list_prompts()).prompts],
                        "prompt": [plain(m.content) for m in prompt.messages],
                        "resources": [str(r.uri) for r in (await session.list_resources()).resources],
                        "templates": [t.uriTemplate for t in (await session.list_resource_templates()).resourceTemplates],
                        "read": [plain(c) for c in found.contents],
                        "missing": missing,
                        "completed": [of_prompt.completion.values, of_template.completion.values],
                        "asked": asked,
                        "greeting": greeting.content[0].text,
                    }
                )
            )


asyncio.run(main())
