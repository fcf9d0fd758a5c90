// What the TypeScript clients keep of who they are, and Ada, whom they send to the authorization server.
const CALLBACK = 'http://127.0.0.1:1/callback';
// The authorization server gives tokens by it that end soon.
const NAME = process.env.CLIENT_NAME ?? 'clients-test';

/** A fetch that notes what came over the wire. */
export function noting(wire) {
  return async (url, init) => {
    const response = await fetch(url, init);
    wire.push([init?.method ?? 'GET', String(url), response.status, response.headers.get('www-authenticate') ?? '']);
    return response;
  };
}

/** For either SDK; both ask the same of it. */
export class Ada {
  wire = [];
  asked = [];
  granted = [];
  #cookies = new Map();

  get redirectUrl() {
    return CALLBACK;
  }

  get clientMetadata() {
    return {
      client_name: NAME,
      redirect_uris: [CALLBACK],
      // With a token to refresh, the SDK 1 does that where more scopes are wanted, and gets the same again.
      grant_types: ['authorization_code', ...(NAME === 'short-lived' ? ['refresh_token'] : [])],
      token_endpoint_auth_method: 'none',
    };
  }

  state() {
    return (this.expected = crypto.randomUUID());
  }

  clientInformation() {
    return this.client;
  }

  saveClientInformation(client) {
    this.client = client;
  }

  tokens() {
    return this.kept;
  }

  saveTokens(tokens) {
    this.kept = tokens;
    this.granted.push(JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url')));
  }

  codeVerifier() {
    return this.verifier;
  }

  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }

  saveDiscoveryState(state) {
    this.discovered = state;
  }

  discoveryState() {
    return this.discovered;
  }

  /** Goes where she is sent, with a browser that has no window, until she is sent back to the client. */
  async redirectToAuthorization(url) {
    this.asked.push(Object.fromEntries(url.searchParams));
    for (let turn = 0; turn < 20; turn++) {
      const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
      for (const line of response.headers.getSetCookie()) {
        const [name, value] = line.split(';')[0].split(/=(.*)/s);
        this.#cookies.set(name, value);
      }
      const next = response.headers.get('location');
      if (!next) throw new Error(`${response.status} at ${url}: ${(await response.text()).slice(0, 300)}`);
      url = new URL(next, url);
      if (url.href.startsWith(CALLBACK)) {
        this.brought = url.searchParams;
        if (this.brought.get('state') !== this.expected) throw new Error('the state is another one');
        return;
      }
    }
    throw new Error('she was sent round in circles');
  }
}

/** Does something, and once more after Ada has agreed to it. */
export async function agreed(ada, finish, work) {
  try {
    return await work();
  } catch (error) {
    if (!ada.brought) throw error;
    const brought = ada.brought;
    ada.brought = undefined;
    await finish(brought);
    return await work();
  }
}

/** What every client does: looks, reads, does what needs more, looks and reads again; and once more when its token has ended. */
export async function tour(names, call) {
  const seen = {
    before: await names(),
    read: await call('get_weather', { city: 'oslo' }),
    written: await call('set_motto', {}),
    after: await names(),
    read_again: await call('get_weather', { city: 'bergen' }),
  };
  if (NAME === 'short-lived') {
    await new Promise(later => setTimeout(later, 5000));
    seen.later = await names();
  }
  return seen;
}
