/** Reaches a sandbox through its template: connections to the template's socket, which it hands on to pid 1. */

import { randomUUID } from 'node:crypto';
import { realpathSync, rmSync } from 'node:fs';
import { isolationError } from '../../kernel/kernel-connection.ts';
import { answerFromProcess } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import { encodeHostPayload, type HostPayload } from '../../protocol/host-payloads.ts';
import { FrameType } from '../../protocol/kernel-frames.ts';
import { fromKernel, fromSupervisor, parseAttached, parseFailed } from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { openProxy, proxyPort } from '../../sandbox/proxy/open-proxy.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { PauseCheck } from '../supervisor/supervisor-client.ts';
import {
  attachPayload,
  type ConnectRequest,
  FrameSocket,
  PipeSource,
  type ProcessConnection,
  type SupervisorTransport,
} from '../supervisor/supervisor-transport.ts';
import type { ForkTemplate } from './fork-template.ts';

/** Where a sandbox finds the socket of its proxy. */
const PROXY_FOLDER_INSIDE = '/cella/network';

/** A kernel that is killed ends sooner; it may be that its pid 1 was stopped. */
const PAUSE_CHECK_MS = 1500;

type SandboxSpec = HostPayload<'openSandbox'>['policy'];

export class TemplateTransport implements SupervisorTransport {
  readonly supervisor: FrameSocket;
  readonly proxy: NetworkProxy | undefined;
  readonly #template: ForkTemplate;
  readonly #id: string;
  readonly pauseCheck: PauseCheck = { checkAfterMs: PAUSE_CHECK_MS, isPaused: async (pid) => isStopped(pid) };
  readonly #leave: () => void;

  private constructor(template: ForkTemplate, policy: SandboxSpec, id: string, proxy?: NetworkProxy) {
    this.#template = template;
    this.#id = id;
    this.proxy = proxy;
    this.#leave = template.addUser();
    this.supervisor = new FrameSocket(template.path, fromSupervisor);
    this.supervisor.send(FrameType.open, 0, encodeHostPayload('openSandbox', { id, policy }));
  }

  static open(template: ForkTemplate, spec: EnvironmentSpec): TemplateTransport | Promise<TemplateTransport> {
    const id = randomUUID();
    const { network } = spec;
    return typeof network === 'string'
      ? new TemplateTransport(template, { ...spec, network }, id)
      : TemplateTransport.#openWithProxy(template, spec, id);
  }

  /** A network with nothing but loopback, and the socket of a proxy. */
  static async #openWithProxy(template: ForkTemplate, spec: EnvironmentSpec, id: string): Promise<TemplateTransport> {
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
      const reason = cause instanceof Error ? cause : new Error(String(cause));
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
    return { signal: 'SIGKILL', environmentEnded: 'the sandbox it lived in has ended' };
  }

  async kill(pid: number): Promise<void> {
    this.#template.kill(this.#id, pid);
  }

  /** Everything in a sandbox ends with its pid 1, and the template sees to what is left. */
  async close(): Promise<void> {
    this.#leave();
    if (!this.proxy) return;
    this.proxy.close();
    rmSync(this.#template.networkFolder(this.#id), { recursive: true, force: true });
  }
}

/** The template's answer to a connection. What comes right behind it is the kernel's. */
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
