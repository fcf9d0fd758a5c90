// An authorization server that others wrote (oidc-provider): clients register themselves, codes come with PKCE, tokens are
// JWT for the resource that was asked for (RFC 8707). Everybody who comes is Ada, and agrees to everything.
//
//   authorization_server.mjs      says where it listens
//
// A resource whose address ends in `?short` gets tokens that end after two seconds, and one with `?ed` such as are signed
// with Ed25519. `robot` needs no person: it has a secret. What a client called `short-lived` gets ends after four.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const server = createServer();
await new Promise(listening => server.listen(0, '127.0.0.1', listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

const SCOPES = 'openid offline_access weather.read weather.write';
const RESOURCE_SCOPES = 'weather.read weather.write';

const key = (kid, ...how) => ({ kid, ...generateKeyPairSync(...how).privateKey.export({ format: 'jwk' }) });

const provider = new Provider(issuer, {
  jwks: { keys: [key('rsa', 'rsa', { modulusLength: 2048 }), key('ed', 'ed25519')] },
  clients: [
    {
      client_id: 'robot',
      client_secret: 'robot-robot-robot-robot',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: SCOPES.split(' '),
  cookies: { keys: ['not much of a secret'] },
  findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource, client) => ({
        scope: RESOURCE_SCOPES,
        audience: resource.replace(/\?(short|ed)$/, ''),
        accessTokenTTL: resource.endsWith('?short') ? 2 : client.clientName === 'short-lived' ? 4 : 600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: resource.endsWith('?ed') ? 'Ed25519' : 'RS256' } },
      }),
    },
  },
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

/** What a person would do: says who it is, and agrees to what is asked for. */
async function agree(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
  }
  const grant =
    (grantId && (await provider.Grant.find(grantId))) ||
    new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes = {} } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(missingResourceScopes)) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  await provider.interactionFinished(
    request,
    response,
    { consent: { grantId: await grant.save() } },
    { mergeWithLastSubmission: true },
  );
}

/** Clients register with the first scope that they are told of, and ask for others later: they may. */
async function register(request) {
  let text = '';
  for await (const part of request) text += part;
  request.body = { ...JSON.parse(text), scope: SCOPES };
}

const answer = provider.callback();
provider.on('server_error', (_, error) => console.error(error));
for (const event of ['authorization.error', 'grant.error', 'registration_create.error', 'interaction.error']) {
  provider.on(event, (_, error) => console.error(event, error.error, error.error_description));
}
server.on('request', (request, response) => {
  console.log(`${request.method} ${request.url}`);
  const answered = async () => {
    if (request.url.startsWith('/interaction/')) return agree(request, response);
    if (request.method === 'POST' && request.url === '/reg') await register(request);
    await answer(request, response);
  };
  answered().catch(error => {
    console.error(error);
    response.writeHead(500).end();
  });
});
console.log(`listening on ${issuer}`);
