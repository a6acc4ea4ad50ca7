/** Encrypts a credential for one user and one name: AES-256-GCM, which opens for no other pair. */

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';

export const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = 'aes-256-gcm';

export interface MasterKey {
  /** Says which key it is, and nothing of the key. */
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

/** Whose it is, and what it is called. */
export interface Label {
  readonly userId: string;
  readonly name: string;
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  return { id: createHash('sha256').update('cella master key\0').update(bytes).digest('hex').slice(0, 16), bytes };
}

export function seal(text: string, { id, bytes }: MasterKey, label: Label): Sealed {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, bytes, nonce, { authTagLength: TAG_BYTES }).setAAD(labelBytes(label));
  const box = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return { keyId: id, nonce: nonce.toString('base64'), box: box.toString('base64') };
}

/** Throws where anything was changed: the key, the label, or a bit of the box. */
export function unseal({ nonce, box }: Sealed, { bytes }: MasterKey, label: Label): string {
  const [iv, data] = [Buffer.from(nonce, 'base64'), Buffer.from(box, 'base64')];
  const end = data.length - TAG_BYTES;
  if (iv.length !== NONCE_BYTES || end < 1) throw new Error('the box is cut');
  const decipher = createDecipheriv(CIPHER, bytes, iv, { authTagLength: TAG_BYTES });
  decipher.setAAD(labelBytes(label)).setAuthTag(data.subarray(end));
  return Buffer.concat([decipher.update(data.subarray(0, end)), decipher.final()]).toString('utf8');
}

/** Each part with its length before it, so that no two pairs give the same bytes. */
export function labelBytes({ userId, name }: Label): Buffer {
  const parts = ['cella credential 1', userId, name].map((text) => Buffer.from(text, 'utf8'));
  return Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.length);
      return [length, part];
    }),
  );
}
