/** Names and labels of the images that `cella images build` makes. */

import { z } from 'zod';

export const DEFAULT_IMAGE = 'cella-python:local';

/** On every image that Cella has made. */
export const IMAGE_LABEL = 'cella.image';
/** Which Cella has made it. */
const VERSION_LABEL = 'cella.version';
/** The Python in it, for people who list images. */
export const PYTHON_LABEL = 'cella.python';

export interface BuiltImage {
  readonly name: string;
  readonly id: string;
  /** `3.11.2`. */
  readonly python: string;
  readonly bytes: number;
  /** Libraries that something in it needs and this machine lacks. */
  readonly missing: readonly string[];
}

/** What an engine tells of an image that was made. */
export const CreatedImage = z.object({ Id: z.string(), Size: z.number() });

/** As a Dockerfile says it; Podman takes one a line. */
export function labelsOfImage(version: string, python: string): string[] {
  return [`LABEL ${IMAGE_LABEL}=1`, `LABEL ${VERSION_LABEL}=${version}`, `LABEL ${PYTHON_LABEL}=${python}`];
}

/** `name` and `name:tag` as an engine takes them, in lower case; a tag that is not given is `local`. */
export function splitName(name: string): { repo: string; tag: string } | undefined {
  const match = /^([a-z0-9][a-z0-9._/-]{0,200})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?$/.exec(name);
  return match?.[1] === undefined ? undefined : { repo: match[1], tag: match[2] ?? 'local' };
}
