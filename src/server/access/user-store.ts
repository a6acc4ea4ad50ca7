/** Users: one document each, by name, so that two requests at once cannot create two users of one name. */

import { CreateUser, UpdateUser, User, UserId, UserName } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { parseInput } from '../../protocol/parse.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import { LOCAL, type Principal, requireScope } from './authorization.ts';
import { newId } from './secrets.ts';

interface UserPageOptions {
  readonly after?: string;
  readonly limit?: number;
}

interface UserPage {
  readonly items: readonly User[];
  readonly next?: string;
}

interface UsersOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  /** Called after a user is gone, with its id: removes what gave access to it. */
  readonly forget: (userId: string) => Promise<void>;
}

export class UserStore {
  readonly #users: Collection<User>;
  readonly #clock: Clock;
  readonly #forget: UsersOptions['forget'];

  constructor({ documents, clock, forget }: UsersOptions) {
    this.#users = new Collection(documents, 'users', User);
    this.#clock = clock;
    this.#forget = forget;
  }

  /** For `admin`. USER_EXISTS if the name is taken, also if two create it at once. */
  async create(by: Principal, input: CreateUser): Promise<User> {
    requireScope(by, 'admin');
    const { name, role, quotas } = parseInput(CreateUser, input, 'user');
    const at = this.#clock();
    const user = { id: `${name}~${newId(12)}`, name, role, quotas, disabled: false, createdAt: at, updatedAt: at };
    const made = await this.#users.put(name, user, { ifRevision: 0 });
    if (made === undefined) throw new CellaError('USER_EXISTS', `A user ${name} exists already.`);
    return user;
  }

  /** By name or id: the principal's own user, or any user for `admin`. Throws NOT_FOUND. */
  async get(by: Principal, nameOrId: string): Promise<User> {
    // The name may belong to another user now.
    const own = nameOrId === by.userId || nameOrId === by.userName;
    if (!own) requireScope(by, 'admin');
    return (await this.#need(own ? by.userId : nameOrId)).value;
  }

  /** For `admin`. By name. */
  async list(by: Principal, options: UserPageOptions = {}): Promise<UserPage> {
    requireScope(by, 'admin');
    const { items, ...rest } = await this.#users.page(options);
    return { items: items.map(({ value }) => value), ...rest };
  }

  /** For `admin`. `local` stays an enabled admin. */
  async update(by: Principal, nameOrId: string, input: UpdateUser): Promise<User> {
    requireScope(by, 'admin');
    const changes = parseInput(UpdateUser, input, 'user');
    const { id } = await this.#need(nameOrId);
    const changed = await this.#users.update(id, (user) => {
      if (!user || !isNamed(user, nameOrId)) throw notFound(nameOrId);
      if (user.id === LOCAL && (changes.disabled || (changes.role ?? 'admin') !== 'admin')) throw untouchable();
      const { role = user.role, disabled = user.disabled, quotas = user.quotas } = changes;
      return { ...user, role, disabled, quotas, updatedAt: this.#clock() };
    });
    if (!changed) throw notFound(nameOrId);
    return changed;
  }

  /** For `admin`. Also deletes the tokens and logins of the user. The caller deletes its sessions first. `local` stays. */
  async delete(by: Principal, nameOrId: string): Promise<void> {
    requireScope(by, 'admin');
    for (;;) {
      const { id, revision, value } = await this.#need(nameOrId);
      if (value.id === LOCAL) throw untouchable();
      if (await this.#users.delete(id, { ifRevision: revision })) return this.#forget(value.id);
    }
  }

  /** For the server itself: checks no rights. */
  async find(nameOrId: string): Promise<User | undefined> {
    return (await this.#find(nameOrId))?.value;
  }

  /** Creates `local` if it is missing or cannot be read: without it, nothing could be repaired. */
  async prepare(): Promise<void> {
    const at = this.#clock();
    const rest = { role: 'admin', disabled: false, quotas: {}, createdAt: at, updatedAt: at } as const;
    const local: User = { id: LOCAL, name: LOCAL, ...rest };
    await this.#users.put(LOCAL, local, { ifRevision: 0 });
    const usable = await this.#users.tryGet(LOCAL);
    if (!usable) await this.#users.put(LOCAL, local);
  }

  async #need(nameOrId: string): Promise<Found<User>> {
    const found = await this.#find(nameOrId);
    if (found) return found;
    throw notFound(nameOrId);
  }

  async #find(nameOrId: string): Promise<Found<User> | undefined> {
    if (!UserId.safeParse(nameOrId).success && !UserName.safeParse(nameOrId).success) return undefined;
    const found = await this.#users.get(nameOrId.split('~', 1)[0] ?? '');
    return found && isNamed(found.value, nameOrId) ? found : undefined;
  }
}

/** The name of an id may have been given to another user since. */
function isNamed({ id }: User, nameOrId: string): boolean {
  return id === nameOrId || !UserId.safeParse(nameOrId).success;
}

function notFound(nameOrId: string): CellaError {
  return new CellaError('NOT_FOUND', `There is no user ${JSON.stringify(nameOrId.slice(0, 100))}.`, {
    advice: 'List users with `cella users list`, or GET /v1/users; `cella users create` creates one.',
  });
}

const untouchable = (): CellaError =>
  new CellaError('FORBIDDEN', 'The user local must stay an enabled admin: its token is in the data folder.', {
    advice: 'Leave it unchanged. `cella tokens revoke` revokes its token, and the next start creates another.',
  });
