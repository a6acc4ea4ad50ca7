/** The packages that kernels are to have: a hash of requirements by package. */

import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import type { DepsStore } from '../contract.ts';
import type { Place } from './place.ts';
import { asNumber, asPairs } from './reply.ts';
import { script } from './script.ts';

const ADD = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
`);

export class RedisDeps implements DepsStore {
  readonly #place: Place;
  readonly #key: string;

  constructor(place: Place) {
    this.#place = place;
    this.#key = place.keys.of('deps');
  }

  async list(): Promise<string[]> {
    const pairs = asPairs(await this.#place.link.send('HGETALL', this.#key));
    return pairs.toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, requirement]) => requirement.toString());
  }

  async add(requirement: string): Promise<boolean> {
    const { name, text } = parseRequirement(requirement);
    return asNumber(await this.#place.link.run(ADD, [this.#key], [name, text])) === 1;
  }

  async remove(name: string): Promise<boolean> {
    return asNumber(await this.#place.link.send('HDEL', this.#key, checkPackageName(name))) === 1;
  }
}
