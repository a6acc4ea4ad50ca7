/** A server for a program of its own: sessions with everything, coding agents too. Heavy parts load when used. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from './client/client.ts';
import type { ClientSession, UseOptions } from './client/client-session.ts';
import type { SessionRequest } from './client/resources.ts';
import { CellaError } from './protocol/errors.ts';
import type { ResolvedServerOptions, ServerOptions } from './server-options.ts';
import type { Storage } from './storage/contract.ts';

/** How long a server that starts or ends beside this one has until it is reached, or gone. */
const PATIENCE_MS = 15_000;
const AGAIN_MS = 50;

export class Server implements AsyncDisposable {
  readonly dataDir: string;
  /** Whether it runs in this process. Where another one had the data folder, it is that one, with its own options. */
  readonly own: boolean;
  /** All that can be done with it: sessions, credentials, users, rules. */
  readonly client: Client;
  readonly #stack: AsyncDisposableStack;

  private constructor(dataDir: string, own: boolean, client: Client, stack: AsyncDisposableStack) {
    this.dataDir = dataDir;
    this.own = own;
    this.client = client;
    this.#stack = stack;
  }

  /** The server that runs on the data folder, else one in this process. */
  static async open(options: ServerOptions = {}): Promise<Server> {
    const { resolveServerOptions: planServer } = await import('./server-options.ts');
    const plan = await planServer(options);
    const { dataDir } = plan.place;
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      await using stack = new AsyncDisposableStack();
      const found = await reach(plan);
      if (found) {
        stack.use(found);
        return new Server(dataDir, false, found, stack.move());
      }
      try {
        await start(plan, stack);
      } catch (error) {
        if (performance.now() > deadline || !(await mayBeReached(error, plan))) throw error;
        await sleep(AGAIN_MS);
        continue;
      }
      const { connect } = await import('./client/client.ts');
      const client = stack.use(await connect({ socket: plan.socket }));
      return new Server(dataDir, true, client, stack.move());
    }
  }

  /** The session of this agent key, made where there is none. */
  async session(wish: SessionRequest = {}, use: UseOptions = {}): Promise<ClientSession> {
    return await this.client.open(wish, use);
  }

  /** Ends a server of its own in good order: running code has its grace, names are saved. Another's goes on. */
  async close(): Promise<void> {
    await this.#stack.disposeAsync();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Undefined where none runs on the data folder, or one that keeps its things elsewhere. */
async function reach({ place }: ResolvedServerOptions): Promise<Client | undefined> {
  const [{ Reach }, { asOptionsError: inWords }] = await Promise.all([
    import('./cli/backend/find-server.ts'),
    import('./server-options.ts'),
  ]);
  return (await inWords(() => new Reach().server(place)))?.client;
}

/** Another server has the folder: it will listen soon, or is about to end. One with another storage stays another. */
async function mayBeReached(error: unknown, { place }: ResolvedServerOptions): Promise<boolean> {
  if (!(error instanceof CellaError && error.code === 'SERVER_RUNNING')) return false;
  const { compareStorage: storageThere } = await import('./cli/backend/find-server.ts');
  return (await storageThere(place)) !== 'other';
}

/** Resolves when it answers; it ends with the stack. */
async function start(
  { wanted, place, storage: given }: ResolvedServerOptions,
  stack: AsyncDisposableStack,
): Promise<void> {
  const { startServer: serveHere } = await import('./start-server.ts');
  const storage = given ?? (place.redis && stack.use(await openRedis(place.redis)));
  const [ready, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const over = serveHere({ ...wanted, storage }, ended.promise, () => ready.resolve());
  await Promise.race([ready.promise, over]);
  stack.defer(async () => {
    ended.resolve();
    await over;
  });
}

async function openRedis({ url, prefix }: NonNullable<ResolvedServerOptions['place']['redis']>): Promise<Storage> {
  const { openStorage } = await import('./session/shared-resources.ts');
  return await openStorage({ storage: 'redis', dataDir: '', redisUrl: url, prefix });
}
