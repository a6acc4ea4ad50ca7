/** Finds a server, and who one is there, before anything else is asked of it. */

import { WhoAmI } from '../protocol/api/access-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import { Client } from './client.ts';
import { Link } from './link.ts';
import { ListeningTransport, SILENCE_MS } from './silence.ts';
import type { Transport } from './transport.ts';
import { WebTransport } from './web-transport.ts';

interface Resuming {
  /** How long a connection that broke is tried again; a minute by default. */
  readonly resumeMs?: number;
  /** How long the server may be silent before it is asked whether it is there; a minute by default. It has to answer. */
  readonly silenceMs?: number;
}

export type ConnectOptions = Resuming &
  (
    | {
        /** `http://127.0.0.1:7710` */
        readonly url: string;
        /** Left out by a page that has logged in. */
        readonly token?: string;
      }
    | {
        /** The path of `daemon.sock` in the data folder of a server on this machine. Not in browsers. */
        readonly socket: string;
      }
  );

const RESUME_MS = 60_000;

/** `DAEMON_UNREACHABLE` where nobody answers, `UNAUTHENTICATED` where the token is no good. */
export async function connect(options: ConnectOptions): Promise<Client> {
  const link = new Link(new ListeningTransport(await transportOf(options), options.silenceMs ?? SILENCE_MS));
  try {
    const { csrf, ...me } = await link.call(WhoAmI);
    link.csrf = csrf;
    return new Client(link, me, options.resumeMs ?? RESUME_MS);
  } catch (error) {
    link.close();
    throw error;
  }
}

async function transportOf(options: ConnectOptions): Promise<Transport> {
  if ('socket' in options) {
    const { UnixTransport } = await import('./unix-transport.ts');
    return new UnixTransport(options.socket);
  }
  if (URL.canParse(options.url)) return new WebTransport(options.url, options.token);
  const problem = options.url
    ? `The address of the server is no URL: ${options.url}`
    : 'No address of a server was given.';
  throw new CellaError('INVALID_OPTIONS', problem, {
    advice: 'Write all of it, such as http://127.0.0.1:7710.',
  });
}
