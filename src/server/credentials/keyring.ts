/** The master keys: one that encrypts, and older ones that still open. From the environment, else from a file. */

import { CellaError } from '../../protocol/errors.ts';
import { newKey, parseKey, readOrMakeKeys, replaceKeys } from './key-file.ts';
import { type MasterKey, masterKeyOf } from './seal.ts';

/** As CELLA_MASTER_KEY and CELLA_OLD_MASTER_KEY hold them. */
export interface GivenKeys {
  readonly current?: string | undefined;
  readonly old?: string | undefined;
}

export class Keyring {
  readonly #path: string;
  readonly #given: GivenKeys;
  #keys: Promise<readonly MasterKey[]> | undefined;

  /** Nothing is read or made before it is needed. A wrong key is told at once. */
  constructor(path: string, given: GivenKeys = {}) {
    this.#path = path;
    this.#given = given;
    if (given.current !== undefined || given.old !== undefined) this.#keys = Promise.resolve(givenKeys(given));
  }

  async current(): Promise<MasterKey> {
    const [first] = await this.#all();
    if (!first) throw new Error('a keyring is never empty');
    return first;
  }

  /** Looks at the file again where no key has the id: another process may have rotated it. */
  async find(id: string): Promise<MasterKey | undefined> {
    const known = (await this.#all()).find((key) => key.id === id);
    if (known || this.#isGiven) return known;
    this.#keys = undefined;
    return (await this.#all()).find((key) => key.id === id);
  }

  /** Where the key is a file, another one comes first there. One that was given stays what it is. */
  async renew(): Promise<void> {
    if (!this.#isGiven) await this.#write([masterKeyOf(newKey()), ...(await this.#all())]);
  }

  /** Forgets the older ones, when nothing is left that they open. */
  async forgetOld(): Promise<void> {
    if (!this.#isGiven) await this.#write([await this.current()]);
  }

  get #isGiven(): boolean {
    return this.#given.current !== undefined;
  }

  async #write(keys: readonly MasterKey[]): Promise<void> {
    const written = keys.map(({ bytes }) => bytes);
    await replaceKeys(this.#path, written);
    this.#keys = Promise.resolve(keys);
  }

  #all(): Promise<readonly MasterKey[]> {
    this.#keys ??= readOrMakeKeys(this.#path).then(
      (keys) => keys.map(masterKeyOf),
      (error) => {
        this.#keys = undefined; // mended by hand, it is read at the next try
        throw error;
      },
    );
    return this.#keys;
  }
}

function givenKeys({ current, old }: GivenKeys): MasterKey[] {
  if (current === undefined) {
    throw invalid('CELLA_OLD_MASTER_KEY is set, and CELLA_MASTER_KEY, which is to take its place, is not.');
  }
  const first = keyIn('CELLA_MASTER_KEY', current);
  return old === undefined ? [first] : [first, keyIn('CELLA_OLD_MASTER_KEY', old)];
}

/** What is wrong with it is told without a character of it. */
function keyIn(variable: string, text: string): MasterKey {
  const bytes = parseKey(text.trim());
  if (bytes) return masterKeyOf(bytes);
  throw invalid(`${variable} is no key of 32 bytes in base64 or hex. \`openssl rand -base64 32\` makes one.`);
}

const invalid = (message: string): CellaError =>
  new CellaError('INVALID_OPTIONS', message, { advice: 'Correct the variable; see docs/credentials.md.' });
