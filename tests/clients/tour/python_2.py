"""The tour with the Python SDK 2: python_2.py URL MODE."""

import asyncio
import json
import sys

from mcp import Client, types
from mcp.shared.exceptions import MCPError


async def main():
    url, mode = sys.argv[1:]
    asked = []

    async def answer(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(url, mode=mode, read_timeout_seconds=20, elicitation_callback=answer) as client:
        prompt = await client.get_prompt("plan_day", {"city": "oslo"})
        read = await client.read_resource("weather://stations/bergen")
        try:
            missing = (await client.read_resource("weather://stations/atlantis")).contents
        except MCPError as error:
            missing = error.error.code
        of_prompt = await client.complete(types.PromptReference(type="ref/prompt", name="plan_day"), {"name": "city", "value": "t"})
        template = types.ResourceTemplateReference(type="ref/resource", uri="weather://stations/{city}")
        of_template = await client.complete(template, {"name": "city", "value": "b"})
        greeting = await client.call_tool("greet", {"name": "Grace"})
        print(
            json.dumps(
                {
                    "version": client.protocol_version,
                    "prompts": [p.name for p in (await client.list_prompts()).prompts],
                    "prompt": [m.content.model_dump(mode="json", by_alias=True, exclude_none=True) for m in prompt.messages],
                    "resources": [str(r.uri) for r in (await client.list_resources()).resources],
                    "templates": [
                        t.model_dump(mode="json", by_alias=True)["uriTemplate"]
                        for t in (await client.list_resource_templates()).resource_templates
                    ],
                    "read": [c.model_dump(mode="json", by_alias=True, exclude_none=True) for c in read.contents],
                    "missing": missing,
                    "completed": [of_prompt.completion.values, of_template.completion.values],
                    "asked": asked,
                    "greeting": greeting.content[0].text,
                }
            )
        )


asyncio.run(main())
