/**
 * Forwards model calls to a provider that is reached without the gateway. If the program is given the address
 * `api.anthropic.com`, it fetches settings from there, whose hooks could run commands without permission. At any other address,
 * it only calls models. So it gets an address on loopback, which forwards only the paths of models.
 */

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createSecureContext, getCACertificates } from 'node:tls';
import type { AgentSetup } from '../agent-adapter.ts';

const PATHS = /^\/v1\/(?:messages(?:\/count_tokens)?|models(?:\/[\w.-]{1,128})?)(?:\?|$)/;
/** Headers of one connection, which are not passed on. */
const OF_CONNECTION = new Set([
  ...['connection', 'host', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);

interface ProviderForwarder extends AsyncDisposable {
  /** The base URL for the program. */
  readonly url: string;
}

type ProviderAccess = Pick<AgentSetup, 'env'> & { readonly model: Pick<AgentSetup['model'], 'baseUrl'> };

/** Undefined for an address without TLS, which is the gateway's or another one on loopback. */
export async function openProviderForwarder({ env, model }: ProviderAccess): Promise<ProviderForwarder | undefined> {
  const base = new URL(model.baseUrl);
  if (base.protocol !== 'https:') return undefined;
  const secureContext = createSecureContext({ ca: await certificates(env) });
  const agent = new Agent({ keepAlive: true, proxyEnv: env, secureContext });
  const server = createServer((incoming, outgoing) => forward(incoming, outgoing, { base, agent }));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      agent.destroy();
      await closed;
    },
  };
}

/** The certificates that the program itself would trust: its own, the system's, and those of the environment. */
async function certificates({ NODE_EXTRA_CA_CERTS: extra = '' }: AgentSetup['env']): Promise<string[]> {
  const known = new Set([...getCACertificates('default'), ...getCACertificates('system')]);
  // A program ignores a file that is not there.
  const more = extra === '' ? '' : await readFile(extra, 'utf8').catch(() => '');
  return more === '' ? [...known] : [...known, more];
}

function forward(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { base, agent }: { readonly base: URL; readonly agent: Agent },
): void {
  const { method, url = '', headers } = incoming;
  if (!PATHS.test(url)) {
    incoming.resume();
    fail(outgoing, 404, 'Agents can call only the models of a provider.');
    return;
  }
  const path = base.pathname.replace(/\/$/, '') + url;
  const sent = request(base.origin, { method, path, headers: withoutConnection(headers), agent });
  outgoing.on('close', () => sent.destroy());
  incoming.on('error', () => sent.destroy());
  sent.on('error', (error: NodeJS.ErrnoException) => {
    fail(outgoing, 502, `The provider cannot be reached (${error.code ?? error.message}).`);
  });
  sent.on('response', (answer) => {
    const { statusCode = 502 } = answer;
    // A redirect would take the key elsewhere.
    if (statusCode >= 300 && statusCode < 400) {
      fail(outgoing, 502, `The provider answered with ${statusCode}, a redirect, which Cella does not follow.`);
      return;
    }
    outgoing.writeHead(statusCode, withoutConnection(answer.headers));
    answer.on('error', () => outgoing.destroy());
    answer.pipe(outgoing);
  });
  incoming.pipe(sent);
}

function withoutConnection(headers: Readonly<OutgoingHttpHeaders>): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name)));
}

/** In the provider's format. In the middle of an answer, it cuts the connection. */
function fail(outgoing: ServerResponse, status: number, message: string): void {
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  const error = { type: status === 404 ? 'not_found_error' : 'api_error', message };
  outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ type: 'error', error }));
}
