"""Lets the Python SDK 2 find out by itself who gives tokens for a server: python_2.py URL MODE.

One JSON document on standard output: what it saw, and every request on the way. Judging is judge.py's part.
"""

import asyncio
import json
import sys

import httpx2
import person
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


async def main():
    url, mode = sys.argv[1:]
    ada = person.Person()

    async def come_back():
        return AuthorizationCodeResult(**ada.brought)

    provider = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name=person.NAME, redirect_uris=[person.CALLBACK], token_endpoint_auth_method="none"
        ),
        storage=ada,
        redirect_handler=ada.agree,
        callback_handler=come_back,
    )
    async with httpx2.AsyncClient(auth=provider, timeout=20, event_hooks={"response": [ada.note]}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=20) as client:

            async def call(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                return result.content[0].text

            async def names():
                return sorted(tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools)

            await person.tour(ada, names, call)
            ada.tell(client.protocol_version)


asyncio.run(main())
