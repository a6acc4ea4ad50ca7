/** The images of this machine's container engine, for the command line. Heavy parts load when used. */

import type { ImageInfo, ImageRequest, Images, ImageWork } from './cli/context.ts';
import type { Environment } from './environment.ts';
import type { Engine } from './environments/container/engine.ts';

type Surroundings = Pick<Environment, 'engine' | 'runtimeDir'>;

export function imagesHere(environment: Surroundings, version: string): Images {
  const engineAt = (address: string | undefined) => connect(address, environment);
  return {
    buildImage: async (request, work) => await build(await engineAt(request.engine), request, version, work),
    listImages: async (address) => {
      const { listImages } = await import('./environments/container/image-list.ts');
      return await listImages(await engineAt(address));
    },
    removeImage: async (name, address) => {
      const { removeImage } = await import('./environments/container/image-list.ts');
      return await removeImage(await engineAt(address), name);
    },
  };
}

async function connect(address: string | undefined, { engine, runtimeDir }: Surroundings): Promise<Engine> {
  const { connectEngine } = await import('./environments/container/engine.ts');
  return await connectEngine(address ?? engine, runtimeDir);
}

async function build(engine: Engine, request: ImageRequest, version: string, work: ImageWork): Promise<ImageInfo> {
  const { name } = request;
  if ('base' in request) {
    const [{ buildFromBase }, { dataFolder }, { newHolder }] = await Promise.all([
      import('./environments/container/build-image.ts'),
      import('./session/data-folders.ts'),
      import('./storage/identity.ts'),
    ]);
    const dataDir = dataFolder(request.dataDir);
    return await buildFromBase(engine, request.base, { name, version, dataDir, owner: newHolder(), ...work });
  }
  const [{ buildImage }, { locatePython }] = await Promise.all([
    import('./environments/container/build-image.ts'),
    import('./session/sandbox-config.ts'),
  ]);
  const { programs, packages } = request;
  const python = await locatePython(request.python);
  return await buildImage(engine, { python, name, programs, packages, version, ...work });
}
