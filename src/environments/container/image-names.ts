/** Names and labels of the images that `cella images build` makes. */

import { z } from 'zod';

export const DEFAULT_IMAGE = 'cella-python:local';

/** Set on every image that Cella builds. */
export const IMAGE_LABEL = 'cella.image';
/** The version of Cella that built the image. */
const VERSION_LABEL = 'cella.version';
/** The image's Python version, for people who list images. */
export const PYTHON_LABEL = 'cella.python';

export interface BuiltImage {
  readonly name: string;
  readonly id: string;
  /** For example `3.11.2`. */
  readonly python: string;
  readonly bytes: number;
  /** Libraries that something in the image needs and this machine lacks. */
  readonly missing: readonly string[];
}

/** What an engine reports about a created image. */
export const CreatedImage = z.object({ Id: z.string(), Size: z.number() });

/** As Dockerfile instructions. Podman accepts one label per line. */
export function labelsOfImage(version: string, python: string): string[] {
  return [`LABEL ${IMAGE_LABEL}=1`, `LABEL ${VERSION_LABEL}=${version}`, `LABEL ${PYTHON_LABEL}=${python}`];
}

/** Splits `name` or `name:tag` as an engine accepts them, in lower case. The default tag is `local`. */
export function splitName(name: string): { repo: string; tag: string } | undefined {
  const match = /^([a-z0-9][a-z0-9._/-]{0,200})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?$/.exec(name);
  return match?.[1] === undefined ? undefined : { repo: match[1], tag: match[2] ?? 'local' };
}
