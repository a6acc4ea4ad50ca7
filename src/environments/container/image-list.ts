/** The images that Cella has made on this machine. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { ask, call, type Engine } from './engine.ts';
import { IMAGE_LABEL, PYTHON_LABEL } from './image-names.ts';
import { findImage } from './image-python.ts';

export interface ListedImage {
  readonly name: string;
  readonly id: string;
  readonly python: string | undefined;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

const Listed = z.array(
  z.object({
    Id: z.string(),
    RepoTags: z.array(z.string()).nullish(),
    Created: z.number(),
    Size: z.number(),
    Labels: z.record(z.string(), z.string()).nullish(),
  }),
);

/** Newest first. */
export async function listImages(engine: Engine): Promise<ListedImage[]> {
  const list = () => engine.docker.listImages({ filters: { label: [`${IMAGE_LABEL}=1`] } });
  const found = await ask(engine, 'listing images', Listed, list);
  const images = found.flatMap(({ Id: id, RepoTags, Created, Size: bytes, Labels }) => {
    const facts = { id, python: Labels?.[PYTHON_LABEL], bytes, createdAt: Created * 1000 };
    const names = (RepoTags ?? []).filter((name) => !name.startsWith('<none>')).map(shortName);
    // One whose name was given to a newer one still takes its room.
    return (names.length > 0 ? names : [id.replace(/^sha256:/, '').slice(0, 12)]).map((name) => ({ name, ...facts }));
  });
  return images.sort((one, other) => other.createdAt - one.createdAt);
}

/** Podman puts a registry before names that have none. */
function shortName(name: string): string {
  return name.replace(/^(localhost|docker\.io\/library)\//, '');
}

/** Only one that Cella has made. */
export async function removeImage(engine: Engine, name: string): Promise<ListedImage> {
  const images = await listImages(engine);
  const image = images.find((one) => [name, `${name}:local`].includes(one.name));
  if (!image) {
    // Is there another image of that name? The error of a removal does not say how to pull one.
    await findImage(engine, name).catch((error: unknown) => {
      throw isNotFound(error) ? unlisted(name, error) : error;
    });
    throw new CellaError('INVALID_OPTIONS', `${name} is not an image that Cella has made, and stays.`);
  }
  const remove = () => engine.docker.getImage(image.name).remove();
  await call(engine, 'removing the image', remove, { image: name });
  return image;
}

function isNotFound(error: unknown): boolean {
  return error instanceof CellaError && error.code === 'IMAGE_NOT_FOUND';
}

function unlisted(image: string, cause: unknown): CellaError {
  const message = `There is no image ${image} on this machine: \`cella images list\` shows those that Cella has made.`;
  return new CellaError('IMAGE_NOT_FOUND', message, { cause, details: { image } });
}
