/**
 * A way to the server for whoever has a lock. The server compares the lock's token with the newest one of its key in the
 * same step in which it writes: what a holder sends that was stopped, or cut off, for too long changes nothing, however
 * late it arrives.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Line } from './place.ts';
import type { Argument, Reply } from './reply.ts';
import { type Script, script } from './script.ts';

export interface Fence {
  /** Where the newest token of the lock's key is. */
  readonly key: string;
  readonly token: string;
  /** Told that another has got the lock; gives what to fail with. */
  readonly onLost: () => CellaError;
}

/** What the server says of a token that is not the newest. */
const REFUSAL = 'FENCED';

/** The last key and the last argument are the fence's, and the script behind it knows nothing of them. */
const CHECK = `
if redis.call('GET', table.remove(KEYS)) ~= table.remove(ARGV) then
  return redis.error_reply('${REFUSAL} another one has the lock')
end
`;

/** Commands that change what others can see. The bytes of a chunk are not among them: a script publishes them. */
const WRITES: ReadonlySet<Argument | undefined> = new Set(['UNLINK', 'HDEL']);
const COMMAND = script('return redis.call(unpack(ARGV))');

export class FencedLine implements Line {
  readonly #line: Line;
  readonly #fence: Fence;

  constructor(line: Line, fence: Fence) {
    this.#line = line;
    this.#fence = fence;
  }

  get address(): Line['address'] {
    return this.#line.address;
  }

  send(...args: Argument[]): Promise<Reply> {
    return WRITES.has(args[0]) ? this.run(COMMAND, [], args) : this.#line.send(...args);
  }

  async run(given: Script, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    const { key, token, onLost } = this.#fence;
    try {
      return await this.#line.run(checked(given), [...keys, key], [...args, token]);
    } catch (error) {
      if (error instanceof CellaError && error.details.reason === REFUSAL) throw onLost();
      throw error;
    }
  }
}

const known = new WeakMap<Script, Script>();

function checked(given: Script): Script {
  const made = known.get(given) ?? script(`${CHECK}${given.text}`);
  known.set(given, made);
  return made;
}
