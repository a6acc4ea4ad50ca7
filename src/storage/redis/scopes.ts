/** Scopes: the keys of skills, artifacts and deps, behind the name of their scope. */

import type { ViewParts } from '../view.ts';
import { RedisArtifacts } from './artifacts.ts';
import { RedisDeps } from './deps.ts';
import type { Place } from './place.ts';
import { asList, asText } from './reply.ts';
import { RedisTexts } from './texts.ts';

interface RedisScope extends ViewParts {
  readonly artifacts: RedisArtifacts;
}

/** How many keys the server looks at before it answers. */
const AT_ONCE = '1000';

export class RedisScopes {
  readonly #place: Place;
  readonly #open = new Map<string, RedisScope>();

  constructor(place: Place) {
    this.#place = place;
  }

  of(name: string): RedisScope {
    const known = this.#open.get(name);
    if (known) return known;
    const place = this.#placeOf(name);
    const scope = {
      skills: new RedisTexts(place, 'skills', 'skill'),
      artifacts: new RedisArtifacts(place),
      deps: new RedisDeps(place),
    };
    this.#open.set(name, scope);
    return scope;
  }

  /** Everything that has the scope in its key, also what writers have left that were killed. */
  async delete(name: string): Promise<void> {
    const { artifacts } = this.of(name);
    this.#open.delete(name);
    await artifacts.close();
    const { link, keys } = this.#placeOf(name);
    const pattern = `${literal(keys.of(''))}*`;
    let cursor = '0';
    do {
      const [next, found] = asList(await link.send('SCAN', cursor, 'MATCH', pattern, 'COUNT', AT_ONCE));
      const names = asList(found).map(asText);
      if (names.length > 0) await link.send('UNLINK', ...names);
      cursor = asText(next);
    } while (cursor !== '0');
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ artifacts }) => artifacts.close()));
  }

  #placeOf(name: string): Place {
    return { ...this.#place, keys: this.#place.keys.scoped(name) };
  }
}

/** In a pattern, what stands for itself. */
const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&');
