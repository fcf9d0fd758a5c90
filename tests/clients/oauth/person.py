"""Whom the Python clients send to the authorization server, and what it keeps for them."""

import asyncio
import base64
import http.cookiejar
import json
import os
import urllib.parse
import urllib.request

CALLBACK = "http://127.0.0.1:1/callback"
# The authorization server gives tokens by it that end soon.
NAME = os.environ.get("CLIENT_NAME", "clients-test")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Person:
    """Ada, with a browser that has no window."""

    def __init__(self):
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.browser = urllib.request.build_opener(cookies, NoRedirect)
        self.brought, self.wire, self.granted, self.asked, self.seen = None, [], [], [], {}
        self.tokens = self.client = None

    async def agree(self, url):
        """Goes where she is sent, until she is sent back to the client."""
        self.asked.append(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)))
        for _ in range(20):
            try:
                raise RuntimeError(f"it stopped at {url}: {self.browser.open(url).read(300)}")
            except urllib.error.HTTPError as answer:
                if answer.status not in (302, 303):
                    raise RuntimeError(f"{answer.status} at {url}: {answer.read(300)}") from answer
                url = urllib.parse.urljoin(url, answer.headers["Location"])
            if url.startswith(CALLBACK):
                self.brought = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
                return
        raise RuntimeError("she was sent round in circles")

    async def note(self, response):
        """One answer, as it came over the wire."""
        request = response.request
        self.wire.append(
            [
                request.method,
                str(request.url),
                response.status_code,
                response.headers.get("www-authenticate", ""),
            ]
        )

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        payload = tokens.access_token.split(".")[1]
        self.granted.append(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client

    def tell(self, version):
        told = {"version": version, "wire": self.wire, "asked": self.asked, "granted": self.granted, **self.seen}
        print(json.dumps(told))


async def tour(person, names, call):
    """What every client does: looks, reads, does what needs more, looks and reads again; and once more when its token has ended."""
    person.seen = {
        "before": await names(),
        "read": await call("get_weather", city="oslo"),
        "written": await call("set_motto"),
        "after": await names(),
        "read_again": await call("get_weather", city="bergen"),
    }
    if NAME == "short-lived":
        await asyncio.sleep(5)
        person.seen["later"] = await names()
