/** Stands in for `api.anthropic.com` behind a proxy, with a certificate that only its `env` trusts. It answers as a test says. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const NAME = 'api.anthropic.com';

export interface AnthropicHost extends AsyncDisposable {
  readonly url: string;
  /** The variables of a program that gets there. */
  readonly env: Readonly<Record<string, string>>;
}

export async function startAnthropicHost(answer: RequestListener): Promise<AnthropicHost> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-host-'));
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const files = ['-keyout', key, '-out', certificate];
  const names = ['-subj', `/CN=${NAME}`, '-addext', `subjectAltName=DNS:${NAME}`];
  await run('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...names]);
  const [keyText, certificateText] = await Promise.all([readFile(key), readFile(certificate)]);
  const host = createTlsServer({ key: keyText, cert: certificateText }, answer).listen(0, '127.0.0.1');
  await once(host, 'listening');
  const proxy = createServer((_request, response) => response.writeHead(403).end());
  proxy.on('connect', ({ url }, near) => {
    const isHost = url === `${NAME}:443`;
    const far = connect(isHost ? (host.address() as AddressInfo).port : 9, '127.0.0.1', () => {
      near.write('HTTP/1.1 200 Connected\r\n\r\n');
      near.pipe(far).pipe(near);
    });
    far.on('error', () => near.destroy());
    near.on('error', () => far.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const through = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    url: `https://${NAME}/`,
    env: { HTTPS_PROXY: through, NO_PROXY: 'localhost,127.0.0.1,::1', NODE_EXTRA_CA_CERTS: certificate },
    async [Symbol.asyncDispose]() {
      for (const server of [proxy, host]) {
        server.closeAllConnections();
        server.close();
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}
