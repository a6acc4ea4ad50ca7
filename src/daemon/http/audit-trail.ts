/** From what was asked of the server to the audit log: who, what, to which session, from where, and how it went. */

import type { AuditEntry } from '../../protocol/access.ts';
import { credentialText } from '../access/audit.ts';
import type { Audit } from '../access/contract.ts';
import { type ExchangeContext, remoteOf } from './exchange.ts';
import { toCellaError } from './failure.ts';

export type About = Pick<AuditEntry, 'session' | 'target'>;

/** Of these the event log tells who did them, and their callers wait for milliseconds. */
const HOT = new Set(['session.execute', 'session.input', 'session.interrupt']);
const REFUSALS = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND', 'QUOTA_EXCEEDED']);

export class AuditTrail {
  readonly #audit: Audit;

  constructor(audit: Audit) {
    this.#audit = audit;
  }

  async done(c: ExchangeContext, action: string | undefined, about: About): Promise<void> {
    // Whoever has answered it has written it down.
    if (c.get('forwarded')) return;
    await this.#write(c, action, { ...about, outcome: 'ok' });
  }

  async failed(c: ExchangeContext, action: string | undefined, about: About, error: unknown): Promise<void> {
    const { code } = toCellaError(error, c.get('requestId'));
    // Whoever sends too much must not be able to fill the log.
    if (code === 'RATE_LIMITED') return;
    await this.#write(c, action, { ...about, outcome: REFUSALS.has(code) ? 'refused' : 'failed', code });
  }

  /** Of what is still under way. */
  async settled(c: ExchangeContext, action: string | undefined, about: About, work: Promise<unknown>): Promise<void> {
    await work.then(
      () => this.done(c, action, about),
      (error) => this.failed(c, action, about, error),
    );
  }

  async #write(
    c: ExchangeContext,
    action: string | undefined,
    entry: About & Pick<AuditEntry, 'outcome' | 'code'>,
  ): Promise<void> {
    const principal = c.get('principal');
    // Nor whoever is nobody.
    if (action === undefined || (!principal && action !== 'login')) return;
    const who = principal && {
      userId: principal.userId,
      userName: principal.userName,
      credential: credentialText(principal.credential),
    };
    const line = { ...who, action, from: remoteOf(c), ...entry };
    const written = (HOT.has(action) ? this.#audit.note(line) : this.#audit.append(line)).catch((error) =>
      c.get('log').error({ err: error, action }, 'the audit log could not be written'),
    );
    if (!HOT.has(action)) await written;
  }
}
