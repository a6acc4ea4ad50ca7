/** Tools and skills: a hash of texts by name, each behind the time of its change, and a word that changes with them. */

import { randomUUID } from 'node:crypto';
import { checkName } from '../../protocol/namespace-models.ts';
import type { StoredText, TextStore } from '../contract.ts';
import { checkText } from '../text-limit.ts';
import type { Place } from './place.ts';
import { asNumber, asPairs, asTextIfAny } from './reply.ts';
import { script } from './script.ts';

/** ARGV: name, value, another version, and `1` where the name must be free. */
const PUT = script(`
if ARGV[4] == '1' and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
return 1
`);

const DELETE = script(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
`);

export class RedisTexts implements TextStore {
  readonly #place: Place;
  readonly #what: string;
  readonly #keys: readonly [texts: string, version: string];

  /** `part` is the key's: "tools"; `what` is for messages: "tool". */
  constructor(place: Place, part: string, what: string) {
    this.#place = place;
    this.#what = what;
    this.#keys = [place.keys.of(part), place.keys.of(`${part}-version`)];
  }

  async list(): Promise<StoredText[]> {
    const pairs = asPairs(await this.#place.link.send('HGETALL', this.#keys[0]));
    const texts = pairs.map(([name, value]) => this.#toText(name, value.toString()));
    return texts.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  async get(name: string): Promise<StoredText | undefined> {
    const checked = checkName(name, this.#what);
    const value = asTextIfAny(await this.#place.link.send('HGET', this.#keys[0], checked));
    return value === undefined ? undefined : this.#toText(checked, value);
  }

  async put(name: string, text: string, { ifAbsent = false }: { readonly ifAbsent?: boolean } = {}): Promise<boolean> {
    const checked = checkName(name, this.#what);
    checkText(this.#what, checked, text);
    const value = `${Math.trunc(this.#place.clock())} ${text}`;
    const args = [checked, value, randomUUID(), ifAbsent ? '1' : '0'];
    return asNumber(await this.#place.link.run(PUT, this.#keys, args)) === 1;
  }

  async delete(name: string): Promise<boolean> {
    const args = [checkName(name, this.#what), randomUUID()];
    return asNumber(await this.#place.link.run(DELETE, this.#keys, args)) === 1;
  }

  async version(): Promise<string> {
    return asTextIfAny(await this.#place.link.send('GET', this.#keys[1])) ?? 'none';
  }

  async holds(count: number): Promise<boolean> {
    return asNumber(await this.#place.link.send('HLEN', this.#keys[0])) >= count;
  }

  #toText(name: string, value: string): StoredText {
    const end = value.indexOf(' ');
    const where = `${this.#place.link.address.where} ${this.#keys[0]} ${name}`;
    return { name, text: value.slice(end + 1), updatedAt: Number(value.slice(0, end)), where };
  }
}
