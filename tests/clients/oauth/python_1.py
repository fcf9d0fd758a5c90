"""The same with the Python SDK 1: python_1.py URL MODE (one mode: legacy). It knows no step-up."""

import asyncio
import json
import sys

import httpx
import person
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata


async def main():
    url, _mode = sys.argv[1:]
    ada = person.Person()

    async def come_back():
        return ada.brought["code"], ada.brought["state"]

    provider = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name=person.NAME,
            redirect_uris=[person.CALLBACK],
            token_endpoint_auth_method="none",
            scope="weather.read",
        ),
        storage=ada,
        redirect_handler=ada.agree,
        callback_handler=come_back,
    )

    def http(headers=None, timeout=None, auth=None):
        return httpx.AsyncClient(headers=headers, timeout=20, auth=auth, event_hooks={"response": [ada.note]})

    async with streamablehttp_client(url, auth=provider, httpx_client_factory=http) as (read, write, _):
        async with ClientSession(read, write) as session:
            hello = await session.initialize()

            async def call(tool, **arguments):
                return (await session.call_tool(tool, arguments)).content[0].text

            async def names():
                return sorted(tool.name for tool in (await session.list_tools()).tools)

            ada.seen = {"before": await names(), "read": await call("get_weather", city="oslo")}
            ada.tell(hello.protocolVersion)


asyncio.run(main())
