/**
 * Limits the memory that holds what the clients of one user have not read, over all their responses, streams and WebSockets.
 *
 * A stream or WebSocket that gets its data from a log waits for room before it reads more. If the user has no room left, the
 * clients that have read nothing for longest are cut, so that those that read can continue.
 */

import { onAbort } from '../lib/abort.ts';

/** How long a client may read nothing while others of its user wait for room. */
const STALLED_MS = 1000;

/** Counts bytes until it is disposed of. */
export interface Reservation extends Disposable {
  resize(bytes: number): void;
}

/** What one client has not read. */
export interface UnreadData extends Reservation {
  /** Whether the user has no room left. A client then gets more only after it has read everything. */
  readonly isFull: boolean;
  /** Waits for room, then counts bytes that are held for the client. Undefined if it is aborted or disposed of first. */
  reserve(bytes: number, signal?: AbortSignal): Promise<Reservation | undefined>;
}

export class UnreadLimit {
  readonly #most: number;
  readonly #users = new Map<string, UserClients>();

  constructor(most: number) {
    this.#most = most;
  }

  /** `cut` closes the connection, whose end disposes of the result. A client without it is never cut. */
  open(userId: string, cut?: () => void): UnreadData {
    return new UserClient(this.#userOf(userId), cut);
  }

  /** For data that is in memory already: cuts clients that have read nothing for longer until there is room. */
  hold(userId: string, bytes: number, cut: () => void): UnreadData {
    const user = this.#userOf(userId);
    const client = new UserClient(user, cut);
    client.resize(bytes);
    user.makeRoomFor(client);
    return client;
  }

  #userOf(userId: string): UserClients {
    const user = this.#users.get(userId) ?? new UserClients(this.#most, () => this.#users.delete(userId));
    this.#users.set(userId, user);
    return user;
  }
}

class UserClient implements UnreadData {
  readonly cut: (() => void) | undefined;
  readonly #user: UserClients;
  unread = 0;
  /** With what is reserved. */
  bytes = 0;
  /** When it last read something, or began to have something to read. */
  readAt = 0;
  isCut = false;
  isClosed = false;

  constructor(user: UserClients, cut: (() => void) | undefined) {
    this.#user = user;
    this.cut = cut;
    user.enter();
  }

  get isFull(): boolean {
    return this.#user.isFull;
  }

  resize(bytes: number): void {
    if (this.isClosed || bytes === this.unread) return;
    const hasRead = bytes < this.unread || this.unread === 0;
    const more = bytes - this.unread;
    this.unread = bytes;
    this.#user.count(this, more, hasRead);
  }

  async reserve(bytes: number, signal?: AbortSignal): Promise<Reservation | undefined> {
    if (this.isClosed || !(await this.#user.waitForRoom(this, bytes, signal))) return undefined;
    let own = bytes;
    const resize = (to: number) => {
      if (!this.isClosed) this.#user.count(this, to - own);
      own = to;
    };
    return { resize, [Symbol.dispose]: () => resize(0) };
  }

  [Symbol.dispose](): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.unread = 0;
    this.#user.leave(this);
  }
}

interface Waiter {
  readonly client: UserClient;
  readonly bytes: number;
  readonly resolve: (hasRoom: boolean) => void;
}

class UserClients {
  readonly #most: number;
  readonly #onEmpty: () => void;
  #clients = 0;
  #bytes = 0;
  /** Of clients that are cut and not closed yet. */
  #leaving = 0;
  /** Clients with unread data. The one that has read nothing for longest comes first. */
  readonly #readers = new Set<UserClient>();
  readonly #waiting = new Set<Waiter>();
  /** What all that wait need. */
  #wanted = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(most: number, onEmpty: () => void) {
    this.#most = most;
    this.#onEmpty = onEmpty;
  }

  get isFull(): boolean {
    return this.#bytes >= this.#most || this.#waiting.size > 0;
  }

  enter(): void {
    this.#clients++;
  }

  leave(client: UserClient): void {
    // Before its bytes are free, or a request of its own would get them.
    for (const waiter of this.#waiting) if (waiter.client === client) this.#refuse(waiter);
    this.count(client, -client.bytes, true);
    this.#admit();
    if (--this.#clients > 0) return;
    clearTimeout(this.#timer);
    this.#onEmpty();
  }

  count(client: UserClient, more: number, hasRead = false): void {
    client.bytes += more;
    this.#bytes += more;
    if (client.isCut) this.#leaving += more;
    else if (hasRead) {
      client.readAt = performance.now();
      this.#readers.delete(client);
      if (client.unread > 0) this.#readers.add(client);
    }
    if (more < 0) this.#admit();
    else this.#watch();
  }

  /** False if the signal is aborted or the client leaves first. */
  async waitForRoom(client: UserClient, bytes: number, signal: AbortSignal | undefined): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter = { client, bytes, resolve };
    this.#waiting.add(waiter);
    this.#wanted += bytes;
    this.#admit();
    using _ = onAbort(signal, () => {
      this.#refuse(waiter);
      this.#admit();
    });
    this.#watch();
    return await promise;
  }

  /** The newest client always stays. */
  makeRoomFor(newest: UserClient): void {
    for (const client of this.#readers) {
      if (client === newest || this.#bytes - this.#leaving <= this.#most) return;
      this.#cut(client);
    }
  }

  /** If nothing is held, the first gets room however much it is. */
  #admit(): void {
    for (const waiter of this.#waiting) {
      const { client, bytes, resolve } = waiter;
      if (this.#bytes > 0 && this.#bytes + bytes > this.#most) return;
      this.#remove(waiter);
      this.count(client, bytes);
      resolve(true);
    }
  }

  #refuse(waiter: Waiter): void {
    if (this.#remove(waiter)) waiter.resolve(false);
  }

  #remove(waiter: Waiter): boolean {
    if (!this.#waiting.delete(waiter)) return false;
    this.#wanted -= waiter.bytes;
    return true;
  }

  #watch(): void {
    if (this.#timer || (this.#waiting.size === 0 && this.#bytes <= this.#most)) return;
    const check = () => {
      this.#timer = undefined;
      this.#cutStalled();
      this.#watch();
    };
    // First notice what was read while this process was busy.
    this.#timer = setTimeout(() => setImmediate(check), STALLED_MS).unref();
  }

  #cutStalled(): void {
    const before = performance.now() - STALLED_MS;
    for (const client of this.#readers) {
      if (this.#bytes - this.#leaving + this.#wanted <= this.#most || client.readAt > before) return;
      this.#cut(client);
    }
  }

  #cut(client: UserClient): void {
    if (!client.cut) return;
    client.isCut = true;
    this.#leaving += client.bytes;
    this.#readers.delete(client);
    client.cut();
  }
}
