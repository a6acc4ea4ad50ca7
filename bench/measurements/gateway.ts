/** The first byte of a streamed answer through the model gateway, compared with the same provider called directly. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openAccess } from '../../src/server/access/access-control.ts';
import { ModelService } from '../../src/server/gateway/model-service.ts';
import { FileStorage } from '../../src/storage/file/file-storage.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Gateway } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';

export async function measureGateway(plan: Plan['gateway'], progress: Progress): Promise<Gateway> {
  await using place = await GatewaySetup.open();
  const direct: number[] = [];
  const through: number[] = [];
  await repeated(plan.warmUpCalls, () => place.direct());
  await repeated(plan.warmUpCalls, () => place.gateway());
  for (let round = 0; round < plan.rounds; round++) {
    direct.push(...(await repeated(plan.callsPerRound, () => place.direct())));
    through.push(...(await repeated(plan.callsPerRound, () => place.gateway())));
    progress.tick(round + 1, plan.rounds);
  }
  return {
    directMs: rounded(median(direct)),
    gatewayMs: rounded(median(through)),
    gatewayP95Ms: rounded(percentile(through, 95)),
    addedMs: rounded(median(through) - median(direct)),
  };
}

async function repeated(times: number, ask: () => Promise<number>): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < times; i++) samples.push(await ask());
  return samples;
}

/** A request like Claude's for a longer conversation. */
const BODY = JSON.stringify({
  model: 'claude-sonnet-4-5',
  stream: true,
  max_tokens: 1000,
  messages: [{ role: 'user', content: 'x'.repeat(60_000) }],
});

/** A model gateway on a runner's socket, in front of a provider that answers at once. */
export class GatewaySetup implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly #agent = new Agent({ keepAlive: true });
  #direct = '';
  #port = '';
  #token = '';

  static async open(): Promise<GatewaySetup> {
    const place = new GatewaySetup();
    try {
      await place.#open();
      return place;
    } catch (error) {
      await place[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Milliseconds to the first byte of the answer, directly from the provider. Resolves at the end of the answer. */
  direct(): Promise<number> {
    const { hostname, port } = new URL(this.#direct);
    return this.#ask({ hostname, port, path: '/v1/messages' });
  }

  /** The same on the path of an agent: the forwarder of its runner, the runner's socket, the gateway. */
  gateway(): Promise<number> {
    return this.#ask({ hostname: '127.0.0.1', port: this.#port, path: '/anthropic/v1/messages' });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }

  async #open(): Promise<void> {
    this.#stack.defer(() => this.#agent.destroy());
    this.#direct = `http://127.0.0.1:${await this.#start('standin-provider.mjs')}`;
    const dataDir = mkdtempSync(join(tmpdir(), 'cella-bench-'));
    this.#stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
    const storage = this.#stack.use(await FileStorage.open(dataDir));
    const access = this.#stack.use(await openAccess({ storage, dataDir }));
    // With budgets, so that each call checks them.
    const settings = {
      providers: [`anthropic=${this.#direct}`],
      sessionUsd: 1_000_000,
      models: ['anthropic=claude-*'],
    };
    const models = this.#stack.use(new ModelService({ documents: storage.documents, access, dataDir, settings }));
    await models.credentials.set(access.localAdmin(), 'anthropic', 'sk-benchmark-1234');
    const binding = { session: 'ses_bench', turn: 'trn_bench', runner: 'rnr_bench' };
    this.#token = await access.sessionTokens.issue(access.localAdmin(), binding);
    const server = createServer((asked, response) => void models.gateway.handle(asked, response, binding));
    const socket = join(dataDir, 'gateway.sock');
    server.listen(socket);
    await once(server, 'listening');
    this.#stack.defer(() => server.closeAllConnections());
    this.#stack.defer(() => void server.close());
    this.#port = await this.#start('way-to-gateway.ts', socket);
  }

  /** A program that ends with the benchmark. Returns the port that it prints. */
  async #start(program: string, ...words: readonly string[]): Promise<string> {
    const file = fileURLToPath(new URL(`../programs/${program}`, import.meta.url));
    const child = spawn(process.execPath, [file, ...words], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#stack.defer(async () => {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    });
    const [line] = await once(child.stdout, 'data');
    return String(Number(String(line)));
  }

  async #ask(where: { hostname: string; port: string; path: string }): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const began = performance.now();
    const headers = { 'content-type': 'application/json', 'x-api-key': this.#token };
    const sent = request({ ...where, method: 'POST', agent: this.#agent, headers });
    sent.on('error', reject);
    sent.on('response', (response) => {
      if (response.statusCode !== 200) reject(new Error(`The answer has the status ${response.statusCode}.`));
      response.once('data', () => {
        const ms = performance.now() - began;
        response.on('end', () => resolve(ms));
      });
    });
    sent.end(BODY);
    return await promise;
  }
}
