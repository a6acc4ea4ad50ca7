/**
 * Tokens of agent runners: each is valid for one turn of one session, as one user, from one runner. One document each, with
 * the SHA-256 of the secret. Deleting the document revokes the token; nothing is cached.
 */

import { z } from 'zod';
import { UserId } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import type { RateLimiter } from '../request-limits.ts';
import {
  digestOf,
  isAlive,
  isOver,
  newId,
  newSecret,
  parseSessionToken,
  sameDigest,
  sessionTokenText,
} from './secrets.ts';
import type { UserStore } from './user-store.ts';

const REFUSED: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN']);
const TTL_MS = 24 * 3_600_000;
/** Compared with if there is no such token, so that the check takes as long. */
const DUMMY_DIGEST = digestOf('');

/** `task` is the turn, `executor` the runner. */
const StoredSessionToken = z.object({
  session: z.string(),
  task: z.string(),
  userId: UserId,
  executor: z.string(),
  secretSha256: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
  uses: z.int(),
  mostUses: z.int().optional(),
});
type StoredSessionToken = z.infer<typeof StoredSessionToken>;

interface SessionTokensOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly users: Pick<UserStore, 'find'>;
  /** Failed checks, by caller. */
  readonly failures: RateLimiter;
}

/** What the token of a runner is bound to. `userId` is the user who prompts. */
export interface TokenBinding {
  readonly session: string;
  readonly turn: string;
  readonly userId: string;
  readonly runner: string;
}

interface SessionTokenOptions {
  /** 24 hours by default. */
  readonly ttlMs?: number | undefined;
  /** How many calls it is valid for. Without it there is no limit; calls are counted all the same. */
  readonly mostUses?: number | undefined;
}

/** For the server itself: the caller has checked that the user may do this. */
export class SessionTokens {
  readonly #tokens: Collection<StoredSessionToken>;
  readonly #clock: Clock;
  readonly #users: SessionTokensOptions['users'];
  readonly #failures: RateLimiter;
  readonly #counts = new UseCounts(async (id, uses) => {
    // Does not bring a revoked token back.
    await this.#tokens.update(id, (there) => there && { ...there, uses: there.uses + uses });
  });

  constructor({ documents, clock, users, failures }: SessionTokensOptions) {
    this.#failures = failures;
    this.#tokens = new Collection(documents, 'session-tokens', StoredSessionToken);
    this.#clock = clock;
    this.#users = users;
  }

  /** Returns `cst_<id>_<secret>`, which is never stored. */
  async issue(
    by: { readonly userId: string },
    { session, turn, runner }: Omit<TokenBinding, 'userId'>,
    { ttlMs = TTL_MS, mostUses }: SessionTokenOptions = {},
  ): Promise<string> {
    const parts = { id: newId(16), secret: newSecret() };
    const createdAt = this.#clock();
    const made = await this.#tokens.put(
      parts.id,
      {
        ...{ session, task: turn, executor: runner, userId: by.userId, uses: 0 },
        ...{ createdAt, expiresAt: createdAt + ttlMs },
        mostUses,
        secretSha256: digestOf(parts.secret),
      },
      { ifRevision: 0 },
    );
    if (made === undefined)
      throw new CellaError('STORAGE_FAILED', 'A session token with this id exists already. Try again.');
    return sessionTokenText(parts);
  }

  /**
   * Returns what it is bound to, and counts the call. UNAUTHENTICATED with `details.reason` (`unknown`, `expired`,
   * `used_up`, `user`); FORBIDDEN with `details.mismatch` if it is bound to something else than expected.
   */
  async check(token: string, expected: Partial<TokenBinding> = {}): Promise<TokenBinding> {
    try {
      for (;;) {
        const found = await this.#good(token);
        const binding = bindingOf(found.value);
        checkBinding(binding, expected);
        if (await this.#use(found)) return binding;
      }
    } catch (error) {
      const by = expected.runner ?? expected.session ?? 'unknown';
      if (error instanceof CellaError && REFUSED.has(error.code)) this.#failures.admit(`session token by ${by}`);
      throw error;
    }
  }

  /** Like `check`, but without counting a call: for the server itself. */
  async peek(token: string): Promise<TokenBinding> {
    return bindingOf((await this.#good(token)).value);
  }

  /** Called at the end of a turn. Its tokens stop working from the next call on. */
  async revoke(turn: string): Promise<void> {
    await this.#remove('task', turn);
  }

  async revokeRunner(runner: string): Promise<void> {
    await this.#remove('executor', runner);
  }

  async forgetSession(session: string): Promise<void> {
    await this.#remove('session', session);
  }

  async forgetUser(userId: string): Promise<void> {
    await this.#remove('userId', userId);
  }

  async sweep(): Promise<void> {
    for await (const { id, value } of this.#tokens.all()) {
      if (isOver(value, this.#clock())) await this.#tokens.delete(id);
    }
  }

  async close(): Promise<void> {
    await this.#counts.flush();
  }

  async #good(token: string): Promise<Found<StoredSessionToken>> {
    const parts = parseSessionToken(token);
    const found = parts && (await this.#tokens.get(parts.id));
    const same = sameDigest(digestOf(parts?.secret ?? ''), found?.value.secretSha256 ?? DUMMY_DIGEST);
    if (!found || !same) throw refused('unknown', 'is unknown or its turn has ended');
    if (!isAlive(found.value, this.#clock())) throw refused('expired', 'has expired');
    if (await this.#isEnabled(found.value.userId)) return found;
    throw refused('user', 'belongs to a user who is disabled or gone');
  }

  /** False if another request changed it meanwhile; the caller then checks again. */
  async #use({ id, revision, value }: Found<StoredSessionToken>): Promise<boolean> {
    const { uses, mostUses } = value;
    if (mostUses === undefined) {
      this.#counts.add(id);
      return true;
    }
    if (uses >= mostUses) throw refused('used_up', `has been used for its ${mostUses} calls`);
    // Counted before the call is admitted, so that concurrent calls cannot exceed the limit.
    return (await this.#tokens.put(id, { ...value, uses: uses + 1 }, { ifRevision: revision })) !== undefined;
  }

  async #isEnabled(userId: string): Promise<boolean> {
    const user = await this.#users.find(userId);
    return user !== undefined && !user.disabled;
  }

  async #remove(field: 'session' | 'task' | 'executor' | 'userId', value: string): Promise<void> {
    for await (const { id } of this.#tokens.where(field, value)) await this.#tokens.delete(id);
  }
}

function bindingOf({ session, task, userId, executor }: StoredSessionToken): TokenBinding {
  return { session, turn: task, userId, runner: executor };
}

/** A runner may only speak for what its token is bound to. */
function checkBinding(binding: TokenBinding, expected: Partial<TokenBinding>): void {
  const words = { session: 'session', turn: 'turn', userId: 'user', runner: 'runner' } as const;
  for (const name of ['session', 'turn', 'userId', 'runner'] as const) {
    const wanted = expected[name];
    if (wanted === undefined || wanted === binding[name]) continue;
    throw new CellaError('FORBIDDEN', `This session token belongs to another ${words[name]}.`, {
      details: { reason: 'binding', mismatch: words[name] },
      advice: 'A runner can act only for its own session and turn; use the token of this turn.',
    });
  }
}

function refused(reason: 'unknown' | 'expired' | 'user' | 'used_up', what: string): CellaError {
  return new CellaError('UNAUTHENTICATED', `This session token ${what}.`, {
    details: { reason },
    advice: 'A session token is valid for one turn. The next prompt gets a new one.',
  });
}

/** Adds to the stored count, if the token is still there. */
type Write = (id: string, uses: number) => Promise<void>;

/** Uses within this time go into one write. */
const GATHER_MS = 1000;

/** Counts uses, and writes them a moment later so that no call waits for it. */
class UseCounts {
  readonly #write: Write;
  #waiting = new Map<string, number>();
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  add(id: string): void {
    this.#waiting.set(id, (this.#waiting.get(id) ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS).unref();
  }

  /** Resolves when all uses so far are written. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const counted = this.#waiting;
    this.#waiting = new Map();
    this.#writing = this.#writing.then(async () => {
      for (const [id, uses] of counted) await this.#write(id, uses).catch(() => {}); // a failed count must not fail a call
    });
    return this.#writing;
  }
}
