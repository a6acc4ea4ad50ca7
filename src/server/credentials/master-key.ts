/** The master key: from the environment or from a private file, rotated on request. Encrypts credentials (AES-256-GCM). */

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { link, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import {
  makePrivateFolder,
  readOwnFile,
  replacePrivateFile,
  syncFolder,
  writePrivateFile,
} from '../../lib/private-file.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { guarded } from '../../storage/file/file-errors.ts';

/** In the format of CELLA_MASTER_KEY and CELLA_OLD_MASTER_KEY. */
export interface EnvironmentKeys {
  readonly current?: string | undefined;
  readonly old?: string | undefined;
}

export class Keyring {
  readonly #path: string;
  readonly #given: EnvironmentKeys;
  #keys: Promise<readonly MasterKey[]> | undefined;

  /** The file is read or created when it is first needed. An invalid key in the environment fails at once. */
  constructor(path: string, given: EnvironmentKeys = {}) {
    this.#path = path;
    this.#given = given;
    if (given.current !== undefined || given.old !== undefined) this.#keys = Promise.resolve(environmentKeys(given));
  }

  async current(): Promise<MasterKey> {
    const [first] = await this.#all();
    if (!first) throw new Error('a keyring is never empty');
    return first;
  }

  /** Reads the file again if no key has the id: another process may have rotated it. */
  async find(id: string): Promise<MasterKey | undefined> {
    const known = (await this.#all()).find((key) => key.id === id);
    if (known || this.#isGiven) return known;
    this.#keys = undefined;
    return (await this.#all()).find((key) => key.id === id);
  }

  /** Adds a new first key to the file. Keys from the environment stay as they are. */
  async rotate(): Promise<void> {
    if (!this.#isGiven) await this.#write([masterKeyOf(newKey()), ...(await this.#all())]);
  }

  /** Removes older keys, once nothing is encrypted with them. */
  async prune(): Promise<void> {
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

function environmentKeys({ current, old }: EnvironmentKeys): MasterKey[] {
  if (current === undefined) {
    throw invalid('CELLA_OLD_MASTER_KEY is set, but CELLA_MASTER_KEY, the new key, is not.');
  }
  const first = keyIn('CELLA_MASTER_KEY', current);
  return old === undefined ? [first] : [first, keyIn('CELLA_OLD_MASTER_KEY', old)];
}

/** The error never repeats a part of the key. */
function keyIn(variable: string, text: string): MasterKey {
  const bytes = parseKey(text.trim());
  if (bytes) return masterKeyOf(bytes);
  throw invalid(`${variable} is not a key of 32 bytes in base64 or hex. \`openssl rand -base64 32\` creates one.`);
}

const invalid = (message: string): CellaError =>
  new CellaError('INVALID_OPTIONS', message, { advice: 'Correct the variable; see docs/gateway.md.' });

const MAX_KEY_FILE_BYTES = 10_000;

export const keyFilePath = (dataDir: string): string => join(dataDir, 'master-key');

/** Creates the file if there is none. If several processes do so at once, all read the same key. */
async function readOrMakeKeys(path: string): Promise<Buffer[]> {
  const there = await readKeys(path);
  if (there) return there;
  await guarded('make', dirname(path), () => makePrivateFolder(dirname(path)));
  await guarded('write', path, () => createKeys(path, [newKey()]));
  const made = await readKeys(path);
  if (made) return made;
  throw unusable(path, 'it was removed as soon as it was created');
}

/** Keeps a file that another process has created: `link`, unlike `rename`, replaces nothing. */
async function createKeys(path: string, keys: readonly Buffer[]): Promise<void> {
  const temporary = temporaryPath(path);
  try {
    await writePrivateFile(temporary, linesOf(keys));
    await link(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function replaceKeys(path: string, keys: readonly Buffer[]): Promise<void> {
  await guarded('write', path, () => replacePrivateFile(path, linesOf(keys), temporaryPath(path)));
}

const temporaryPath = (path: string): string => `${path}.${process.pid}-${randomBytes(6).toString('hex')}`;

const linesOf = (keys: readonly Buffer[]): string => keys.map((key) => `${key.toString('base64')}\n`).join('');

const newKey = (): Buffer => randomBytes(KEY_BYTES);

/** Undefined if there is no file. An unusable file is never replaced: it may be the only copy of the key. */
async function readKeys(path: string): Promise<Buffer[] | undefined> {
  const file = await guarded('read', path, () => readOwnFile(path, { maxBytes: MAX_KEY_FILE_BYTES }));
  if (file.kind === 'missing') return undefined;
  if (file.kind === 'unusable') throw unusable(path, file.reason);
  if ((file.mode & 0o077) !== 0) throw unusable(path, `others can read it; run: chmod 600 ${path}`);
  const keys = file.text.split('\n').filter((line) => line.trim() !== '');
  const bytes = keys.map((line) => parseKey(line.trim()));
  const good = bytes.filter((key) => key !== undefined);
  if (good.length === 0 || good.length < bytes.length) throw unusable(path, 'it contains something that is not a key');
  return good;
}

/** 32 bytes as base64, base64url or hex; undefined if it is anything else. */
function parseKey(text: string): Buffer | undefined {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === KEY_BYTES ? bytes : undefined;
}

function unusable(path: string, why: string): CellaError {
  return new CellaError('CREDENTIAL_UNREADABLE', `The master key in ${path} cannot be used: ${why}.`, {
    details: { path },
    advice: 'Repair the file, restore it from a backup, or set CELLA_MASTER_KEY. See docs/gateway.md.',
  });
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

interface MasterKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  readonly bytes: Buffer;
}

export const Sealed = z.object({
  keyId: z.string(),
  nonce: z.string(),
  /** The encrypted text and its tag. */
  box: z.string(),
});
export type Sealed = z.infer<typeof Sealed>;

/** The owner and the name of an encrypted value. */
interface AssociatedData {
  readonly userId: string;
  readonly name: string;
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  return { id: createHash('sha256').update('cella master key\0').update(bytes).digest('hex').slice(0, 16), bytes };
}

export function seal(text: string, { id, bytes }: MasterKey, label: AssociatedData): Sealed {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, bytes, nonce, { authTagLength: TAG_BYTES }).setAAD(associatedBytes(label));
  const box = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return { keyId: id, nonce: nonce.toString('base64'), box: box.toString('base64') };
}

/** Throws if the key, the label or any bit of the box was changed. */
export function unseal({ nonce, box }: Sealed, { bytes }: MasterKey, label: AssociatedData): string {
  const [iv, data] = [Buffer.from(nonce, 'base64'), Buffer.from(box, 'base64')];
  const end = data.length - TAG_BYTES;
  if (iv.length !== NONCE_BYTES || end < 1) throw new Error('the encrypted text is truncated');
  const decipher = createDecipheriv(CIPHER, bytes, iv, { authTagLength: TAG_BYTES });
  decipher.setAAD(associatedBytes(label)).setAuthTag(data.subarray(end));
  return Buffer.concat([decipher.update(data.subarray(0, end)), decipher.final()]).toString('utf8');
}

/** Each part with its length before it, so that no two pairs give the same bytes. */
export function associatedBytes({ userId, name }: AssociatedData): Buffer {
  const parts = ['cella credential 1', userId, name].map((text) => Buffer.from(text, 'utf8'));
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return [length, part];
    }),
  );
}
