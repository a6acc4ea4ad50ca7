/** Messages of the Jupyter protocol 5.3: signed JSON parts behind a delimiter. */

import { createHmac } from 'node:crypto';

const DELIMITER = '<IDS|MSG>';

export interface JupyterMessage {
  readonly type: string;
  /** The id of the request that this message belongs to. */
  readonly parent: string;
  readonly content: Readonly<Record<string, unknown>>;
}

export function encodeMessage(
  key: string,
  header: { readonly id: string; readonly session: string; readonly type: string },
  content: object,
): (string | Buffer)[] {
  const { id, session, type } = header;
  const date = new Date().toISOString();
  const full = { msg_id: id, session, username: 'bench', date, msg_type: type, version: '5.3' };
  const parts = [full, {}, {}, content].map((part) => Buffer.from(JSON.stringify(part)));
  return [DELIMITER, sign(key, parts), ...parts];
}

export function decodeMessage(key: string, frames: readonly Buffer[]): JupyterMessage {
  const start = frames.findIndex((frame) => frame.length === DELIMITER.length && frame.toString() === DELIMITER);
  const [signature, header, parent, metadata, content] = frames.slice(start + 1);
  if (start < 0 || !signature || !header || !parent || !metadata || !content) {
    throw new Error('ipykernel sent a message with parts missing.');
  }
  if (signature.toString() !== sign(key, [header, parent, metadata, content])) {
    throw new Error('ipykernel sent a message with a wrong signature.');
  }
  return {
    type: JSON.parse(header.toString()).msg_type,
    parent: JSON.parse(parent.toString()).msg_id ?? '',
    content: JSON.parse(content.toString()),
  };
}

function sign(key: string, parts: readonly Buffer[]): string {
  const hmac = createHmac('sha256', key);
  for (const part of parts) hmac.update(part);
  return hmac.digest('hex');
}
