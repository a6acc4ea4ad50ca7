/** The subprocess executor: CPython in a sandbox, forked from a warm template and reached through it. */

import { randomUUID } from 'node:crypto';
import { realpathSync, rmSync } from 'node:fs';
import { probePython } from '../../interpreter/find-python.ts';
import { isolationError } from '../../kernel/kernel-connection.ts';
import { answerFromProcess } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import { asError } from '../../lib/values.ts';
import { ALL_CAPABILITIES } from '../../protocol/enums.ts';
import type { EnvironmentSpec, Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FrameType } from '../../protocol/kernel-frames.ts';
import {
  encodeHostPayload,
  fromKernel,
  fromSupervisor,
  type HostPayload,
  parseAttached,
  parseFailed,
} from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { openProxy, proxyPort } from '../../sandbox/proxy/open-proxy.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { Executor, KernelHost } from '../kernel-host.ts';
import { SparePool } from '../supervisor/spare-pool.ts';
import { type PauseCheck, SupervisorClient } from '../supervisor/supervisor-client.ts';
import {
  attachPayload,
  type ConnectRequest,
  FrameSocket,
  PipeSource,
  type ProcessConnection,
  type SupervisorTransport,
} from '../supervisor/supervisor-transport.ts';
import { type TemplateConfig, TemplateProcess } from './template-process.ts';

/** The path of the proxy's socket folder in a sandbox. */
const PROXY_FOLDER_INSIDE = '/cella/network';

/** A killed kernel ends sooner than this; if it does not, its pid 1 may be paused. */
const PAUSE_CHECK_MS = 1500;

type SandboxSpec = HostPayload<'openSandbox'>['policy'];

class TemplateTransport implements SupervisorTransport {
  readonly supervisor: FrameSocket;
  readonly proxy: NetworkProxy | undefined;
  readonly #template: TemplateProcess;
  readonly #id: string;
  readonly pauseCheck: PauseCheck = { checkAfterMs: PAUSE_CHECK_MS, isPaused: async (pid) => isStopped(pid) };
  readonly #leave: () => void;

  private constructor(template: TemplateProcess, policy: SandboxSpec, id: string, proxy?: NetworkProxy) {
    this.#template = template;
    this.#id = id;
    this.proxy = proxy;
    this.#leave = template.addUser();
    this.supervisor = new FrameSocket(template.path, fromSupervisor);
    this.supervisor.send(FrameType.open, 0, encodeHostPayload('openSandbox', { id, policy }));
  }

  static open(template: TemplateProcess, spec: EnvironmentSpec): TemplateTransport | Promise<TemplateTransport> {
    const id = randomUUID();
    const { network } = spec;
    return typeof network === 'string'
      ? new TemplateTransport(template, { ...spec, network }, id)
      : TemplateTransport.#openWithProxy(template, spec, id);
  }

  /** Opens a sandbox with a loopback-only network and a proxy's socket. */
  static async #openWithProxy(
    template: TemplateProcess,
    spec: EnvironmentSpec,
    id: string,
  ): Promise<TemplateTransport> {
    const folder = template.networkFolder(id);
    const proxy = await openProxy(spec, folder);
    const readable = [...spec.readable, { path: realpathSync.native(folder), at: PROXY_FOLDER_INSIDE }];
    const policy: SandboxSpec = { ...spec, network: 'none', readable, proxy: proxyPort(PROXY_FOLDER_INSIDE) };
    return new TemplateTransport(template, policy, id, proxy);
  }

  async connect(kernel: number, request: ConnectRequest): Promise<ProcessConnection> {
    const id = randomUUID();
    const control = new FrameSocket(this.#template.path, fromKernel);
    const payload = { id, sandbox: this.#id, ...attachPayload(kernel, request) };
    control.send(FrameType.attach, 0, encodeHostPayload('attachInSandbox', payload));
    const pipes: PipeSource[] = [];
    try {
      const paths = parseAttached(await this.awaitAnswer(firstAnswer(control)));
      for (const path of [paths.out, paths.err]) pipes.push(new PipeSource(path));
      const [stdout, stderr] = pipes as [PipeSource, PipeSource];
      return { control, stdout, stderr };
    } catch (cause) {
      control.close();
      for (const pipe of pipes) pipe.close();
      const reason = asError(cause);
      throw 'code' in reason && reason.code === 'ENOENT' ? isolationError('template', reason.message) : reason;
    } finally {
      this.#template.confirmOpened(id);
    }
  }

  /** A template that does not answer makes no more kernels: the next session gets another one. */
  awaitAnswer<T>(answer: Promise<T>): Promise<T> {
    const { pid, startTimeoutMs: timeoutMs } = this.#template;
    return answerFromProcess(answer, { pid, timeoutMs }, (why) => {
      this.#template.retire();
      return isolationError('template', `the process that kernels are forked from does not answer: ${why}`);
    });
  }

  get unusable(): boolean {
    return !this.#template.alive;
  }

  async exitReason(problem: Error | undefined): Promise<ProcessExit> {
    if (problem && 'code' in problem && (problem.code === 'ECONNREFUSED' || problem.code === 'ENOENT'))
      this.#template.retire();
    return { signal: 'SIGKILL', environmentEnded: 'its sandbox has ended' };
  }

  async kill(pid: number): Promise<void> {
    this.#template.kill(this.#id, pid);
  }

  /** Everything in a sandbox ends with its pid 1; the template cleans up the rest. */
  async close(): Promise<void> {
    this.#leave();
    if (!this.proxy) return;
    this.proxy.close();
    rmSync(this.#template.networkFolder(this.#id), { recursive: true, force: true });
  }
}

/** The template's answer to a connection. The bytes right after it come from the kernel. */
function firstAnswer(control: FrameSocket): Promise<Buffer> {
  return new Promise<Buffer>((resolve, reject) => {
    control.read(
      (frame) => {
        control.unread();
        if (frame.type === FrameType.attached) resolve(frame.payload);
        else if (frame.type === FrameType.failed) {
          const { layer, message } = parseFailed(frame.payload);
          reject(isolationError(layer, message));
        } else reject(isolationError('template', 'it answered with something else'));
      },
      () => reject(isolationError('template', 'the template closed the connection')),
    );
  });
}

/** How many templates to try for one sandbox. */
const MOST_TEMPLATES = 3;

export class SubprocessExecutor implements Executor {
  readonly #config: TemplateConfig;
  readonly capabilities = ALL_CAPABILITIES;
  readonly spares = new SparePool(async () => {
    const template = await this.#live();
    return {
      get alive() {
        return template.alive;
      },
      make: async (spec) => new SupervisorClient(await TemplateTransport.open(template, spec)),
    };
  });
  #template: Promise<TemplateProcess> | undefined;
  /** Running templates, including retired ones. */
  readonly #running = new Set<TemplateProcess>();
  #closed = false;

  constructor(config: TemplateConfig) {
    this.#config = config;
  }

  interpreter(): Promise<Interpreter> {
    return probePython(this.#config.python);
  }

  async open(spec: EnvironmentSpec): Promise<KernelHost> {
    for (let left = MOST_TEMPLATES; ; left--) {
      const template = await this.#live();
      const transport = await TemplateTransport.open(template, spec);
      if (left === 1 || (await transport.supervisor.connected)) return new SupervisorClient(transport);
      // The template was killed, but its exit is not reported yet.
      template.retire();
      await transport.close();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.spares.close();
    const template = this.#template;
    this.#template = undefined;
    await template?.catch(() => {}); // a failed start was reported to its caller
    await Promise.all([...this.#running].map((one) => one.close()));
  }

  async #live(): Promise<TemplateProcess> {
    const current = this.#template;
    if (current && (await current).alive) return current;
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'Cella was shut down in this process.');
    // The first caller to find it gone starts the next; the others wait for the same one.
    if (this.#template === current) {
      const starting = TemplateProcess.start(this.#config);
      this.#template = starting;
      starting.then(
        (made) => {
          this.#running.add(made);
          void made.exited.then(() => this.#running.delete(made));
        },
        () => {
          if (this.#template === starting) this.#template = undefined;
        },
      );
    }
    return (await this.#template) as TemplateProcess;
  }
}
