/** Writes requests to the audit log: who, what, which session, from where, and how it ended. */

import { type AuditEntry, RefusalKind } from '../../protocol/access-models.ts';
import type { RouteAudit } from '../../protocol/api/route.ts';
import type { ErrorCode } from '../../protocol/error-codes.ts';
import { type AuditLog, authMethodText } from '../access/audit-log.ts';
import type { Refusal } from '../access/refusal-limiter.ts';
import { toCellaError } from './error-response.ts';
import { clientAddress, type RequestContext } from './server-context.ts';

export type AuditTarget = Pick<AuditEntry, 'session' | 'target'>;
type RefusedTarget = AuditTarget &
  Pick<Refusal, 'code' | 'detail' | 'outcome'> & { readonly action?: string | undefined };

/** The refusal kind by error code, if `details.refused` does not name one. */
const KINDS: Partial<Record<ErrorCode, RefusalKind>> = {
  UNAUTHENTICATED: 'token',
  FORBIDDEN: 'forbidden',
  NOT_FOUND: 'not_found',
  QUOTA_EXCEEDED: 'quota',
  RATE_LIMITED: 'rate',
  APPROVAL_REFUSED: 'permission',
  BYPASS_REFUSED: 'permission',
  FOLDER_REPLACED: 'path',
};
/** Invalid requests change nothing, and anyone can repeat them quickly, so they are recorded like refusals. */
const INVALID: ReadonlySet<ErrorCode> = new Set([
  ...(['INVALID_REQUEST', 'INVALID_OPTIONS', 'INVALID_NAME', 'TOO_LARGE', 'NAME_TAKEN', 'USER_EXISTS'] as const),
  ...(['SESSION_CONFLICT', 'IDEMPOTENCY_CONFLICT', 'ALREADY_RESOLVED', 'INPUT_NOT_PENDING', 'KERNEL_BUSY'] as const),
  ...(['TOOL_NOT_FOUND', 'TOOL_INVALID', 'TOOL_ARGUMENTS', 'SKILL_NOT_FOUND', 'SKILL_INVALID'] as const),
  ...(['ARTIFACT_NOT_FOUND', 'ARTIFACT_INVALID', 'ARTIFACT_TOO_LARGE', 'CHECKPOINT_NOT_FOUND'] as const),
  ...(['DEPS_INVALID', 'DEPS_LOCKED', 'TRANSACTION_OPEN', 'NO_TRANSACTION', 'NOTHING_TO_UNDO'] as const),
]);

export class RequestAudit {
  readonly #audit: AuditLog;

  constructor(audit: AuditLog) {
    this.#audit = audit;
  }

  async done(c: RequestContext, audit: RouteAudit | undefined, target: AuditTarget): Promise<void> {
    // The server that answered the request has logged it.
    if (c.get('forwarded')) return;
    if (audit) await this.#write(c, audit, { ...this.#lineOf(c, target), outcome: 'ok' });
  }

  async failed(c: RequestContext, audit: RouteAudit | undefined, target: AuditTarget, error: unknown): Promise<void> {
    const action = audit?.name;
    const { code, details } = toCellaError(error, c.get('requestId'));
    const byCode = KINDS[code];
    const refused = RefusalKind.safeParse(details.refused).data ?? (byCode && action === 'login' ? 'login' : byCode);
    // Refused clients must not be able to fill the log.
    if (refused) return this.refused(c, refused, { ...target, action, code });
    if (!audit || !c.get('principal')) return;
    if (INVALID.has(code)) return this.refused(c, 'invalid', { ...target, action, code, outcome: 'failed' });
    await this.#write(c, audit, { ...this.#lineOf(c, target), outcome: 'failed', code });
  }

  /** Reads have no action name, so a refused read is logged by its route. */
  refused(c: RequestContext, kind: RefusalKind, { action, ...target }: RefusedTarget): void {
    const route = `${c.req.method.toLowerCase()} ${c.get('route') ?? 'none'}`;
    this.#audit.refused({ ...this.#lineOf(c, target), kind, action: action ?? route });
  }

  /** Logs an outcome that is known only later. */
  async settled(
    c: RequestContext,
    audit: RouteAudit | undefined,
    target: AuditTarget,
    work: Promise<unknown>,
  ): Promise<void> {
    await work.then(
      () => this.done(c, audit, target),
      (error) => this.failed(c, audit, target, error),
    );
  }

  #lineOf(c: RequestContext, target: AuditTarget) {
    const principal = c.get('principal');
    const who = principal && {
      userId: principal.userId,
      userName: principal.userName,
      credential: authMethodText(principal.authMethod),
    };
    return { ...who, from: clientAddress(c), ...target };
  }

  async #write(
    c: RequestContext,
    { name: action, buffered }: RouteAudit,
    line: Omit<AuditEntry, 'action'>,
  ): Promise<void> {
    const entry = { ...line, action };
    const written = (buffered ? this.#audit.appendSoon(entry) : this.#audit.append(entry)).catch((error) =>
      c.get('log').error({ err: error, action }, 'the audit log could not be written'),
    );
    if (!buffered) await written;
  }
}
