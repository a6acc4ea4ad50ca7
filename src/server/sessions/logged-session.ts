/** A session of the server as `SessionApi`: what it runs and changes is written to the session log. */

import { EventQueue } from '../../kernel/event-queue.ts';
import type { Capabilities, ExecutorKind } from '../../protocol/enums.ts';
import {
  type BackgroundEvent,
  type ExecutionEvent,
  giveInput,
  type ResultEvent,
} from '../../protocol/execution-events.ts';
import type {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  Restored,
  Variable,
} from '../../protocol/kernel-state.ts';
import { toBackgroundEvent } from '../../protocol/session-events.ts';
import type * as api from '../../session/api.ts';
import type { Session } from '../../session/session.ts';
import { ServerExecution } from './server-execution.ts';
import type { ServerSession } from './server-session.ts';

export class LoggedSession implements api.SessionApi {
  readonly #session: Session;
  readonly #server: ServerSession;

  constructor(session: Session, server: ServerSession) {
    this.#session = session;
    this.#server = server;
  }

  get agentKey(): string {
    return this.#server.definition.agentKey;
  }

  get executor(): ExecutorKind {
    return this.#session.executor;
  }

  get sandboxed(): boolean {
    return this.#session.sandboxed;
  }

  get capabilities(): Capabilities {
    return this.#session.capabilities;
  }

  get tools(): api.ToolsApi {
    return this.#namespaces.tools;
  }

  get skills(): api.SkillsApi {
    return this.#namespaces.skills;
  }

  get artifacts(): api.ArtifactsApi {
    return this.#namespaces.artifacts;
  }

  get deps(): api.DepsApi {
    return this.#namespaces.deps;
  }

  get #namespaces(): Session {
    this.#server.requireConfirmed();
    return this.#session;
  }

  async run(code: string, { onEvent, onInput, ...options }: api.RunOptions = {}): Promise<ResultEvent> {
    const execution = new ServerExecution(code, options);
    execution.observe = (event) => {
      if (event.type === 'input_request') void giveInput(this, event, onInput);
      onEvent?.(event);
    };
    this.#server.submit(execution);
    return (await execution.ended).event;
  }

  stream(code: string, options: api.ExecuteOptions = {}): AsyncIterable<ExecutionEvent> {
    const events = new EventQueue<ExecutionEvent>();
    let room = Promise.withResolvers<void>();
    events.attach({ onRoom: () => room.resolve() });
    const execution = new ServerExecution(code, options);
    execution.observe = async (event) => {
      if (events.push(event, 'text' in event ? event.text.length : 1024)) return;
      room = Promise.withResolvers();
      await room.promise;
    };
    execution.ended.then(
      ({ event }) => events.end(event),
      (error) => events.fail(error),
    );
    this.#server.submit(execution);
    return events;
  }

  answerInput(id: number, text: string): Promise<void> {
    return this.#server.answerInput(id, text);
  }

  cancelInput(id: number, reason?: string): Promise<void> {
    return this.#server.cancelInput(id, { reason });
  }

  interrupt(): Promise<boolean> {
    return this.#server.interrupt();
  }

  async reset(): Promise<void> {
    await this.#use((session) => session.reset());
    await this.#server.logStateChange('reset');
  }

  async restart(): Promise<void> {
    await this.#use((session) => session.restart());
    await this.#server.logStateChange('restarted');
  }

  async commit(): Promise<void> {
    await this.#use((session) => session.commit());
    await this.#server.logStateChange('committed');
  }

  async rollback(): Promise<void> {
    await this.#use((session) => session.rollback());
    await this.#server.logStateChange('rolled_back');
  }

  async checkpoint(options?: api.CheckpointOptions): Promise<Checkpoint> {
    const made = await this.#use((session) => session.checkpoint(options));
    await this.#server.logStateChange('checkpoint_made', { subject: made.id });
    return made;
  }

  checkpoints(): Promise<readonly Checkpoint[]> {
    return this.#use((session) => session.checkpoints());
  }

  async restore(idOrName: string): Promise<Restored> {
    const restored = await this.#use((session) => session.restore(idOrName));
    await this.#server.logStateChange('checkpoint_restored', { subject: restored.checkpoint.id });
    return restored;
  }

  async deleteCheckpoint(idOrName: string): Promise<void> {
    await this.#use((session) => session.deleteCheckpoint(idOrName));
    await this.#server.logStateChange('checkpoint_deleted', { subject: idOrName });
  }

  async fork({ agentKey, from, replace }: api.ForkOptions): Promise<api.SessionApi> {
    const forked = await this.#server.fork({
      agentKey,
      from,
      replace,
    });
    return await forked.api();
  }

  async undo(): Promise<void> {
    await this.#use((session) => session.undo());
    await this.#server.logStateChange('undone');
  }

  save(): Promise<void> {
    return this.#use((session) => session.save());
  }

  async hibernate(): Promise<void> {
    await this.#use((session) => session.hibernate());
    await this.#server.logStateChange('hibernated');
  }

  complete(code: string, cursor?: number): Promise<Completion> {
    return this.#use((session) => session.complete(code, cursor));
  }

  inspect(code: string, cursor?: number): Promise<Inspection> {
    return this.#use((session) => session.inspect(code, cursor));
  }

  isComplete(code: string): Promise<Completeness> {
    return this.#use((session) => session.isComplete(code));
  }

  history(): Promise<readonly HistoryEntry[]> {
    return this.#server.history();
  }

  variables(): Promise<readonly Variable[]> {
    return this.#use((session) => session.variables());
  }

  async *background(): AsyncGenerator<BackgroundEvent, void, undefined> {
    const { last } = await this.#server.position();
    for await (const item of this.#server.events({ after: last })) {
      const event = toBackgroundEvent(item);
      if (event) yield event;
    }
  }

  /** The session stays open: only this view of it ends. */
  async close(): Promise<void> {}

  async destroy(): Promise<void> {
    await this.#server.delete();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#server.use(work);
  }
}
