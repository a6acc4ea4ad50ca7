/** Container images and agent programs of this machine, for the CLI. Heavy parts load when they are used. */

import type { Engine } from '../environments/container/engine.ts';
import type { ProcessConfig } from '../settings/process-config.ts';
import type {
  AgentProgramCommands,
  AgentProgramEntry,
  ImageCommands,
  ImageInfo,
  ImageRequest,
  ProgressOptions,
} from './context.ts';

type Surroundings = Pick<ProcessConfig, 'engine' | 'runtimeDir'>;

export function imagesHere(environment: Surroundings, version: string): ImageCommands {
  const engineAt = (address: string | undefined) => connect(address, environment);
  return {
    buildImage: async (request, work) => await build(await engineAt(request.engine), request, version, work),
    listImages: async (address) => {
      const { listImages } = await import('../environments/container/image-list.ts');
      return await listImages(await engineAt(address));
    },
    deleteImage: async (name, address) => {
      const { removeImage } = await import('../environments/container/image-list.ts');
      return await removeImage(await engineAt(address), name);
    },
  };
}

async function connect(address: string | undefined, { engine, runtimeDir }: Surroundings): Promise<Engine> {
  const { connectEngine } = await import('../environments/container/engine.ts');
  return await connectEngine(address ?? engine, runtimeDir);
}

async function build(
  engine: Engine,
  request: ImageRequest,
  version: string,
  work: ProgressOptions,
): Promise<ImageInfo> {
  const { name } = request;
  if ('base' in request) {
    const [{ buildFromBase }, { dataFolder }, { newProcessIdentity }] = await Promise.all([
      import('../environments/container/build-image.ts'),
      import('../session/data-folders.ts'),
      import('../lib/process-identity.ts'),
    ]);
    const dataDir = dataFolder(request.dataDir);
    return await buildFromBase(engine, request.base, { name, version, dataDir, owner: newProcessIdentity(), ...work });
  }
  const [{ buildImage }, { locatePython }] = await Promise.all([
    import('../environments/container/build-image.ts'),
    import('../session/sandbox-config.ts'),
  ]);
  const { programs, packages } = request;
  const python = await locatePython(request.python);
  return await buildImage(engine, { python, name, programs, packages, version, ...work });
}

export const programsHere: AgentProgramCommands = {
  installAgent: async ({ agent, dataDir, version }, work) => {
    const [{ agentProgram }, { installProgram }, { programsDir: programsIn }, folder] = await Promise.all([
      import('../agents/registry.ts'),
      import('../agents/install-program.ts'),
      import('../agents/installed-programs.ts'),
      dataFolderOf(dataDir),
    ]);
    const program = agentProgram(agent);
    return { agent, ...(await installProgram(program, { programs: programsIn(folder), version, ...work })) };
  },
  listAgentPrograms: async (dataDir) => {
    const [{ agentPrograms }, { installedVersions, programsDir: programsIn }, { findActiveVersion: findUsed }] =
      await Promise.all([
        import('../agents/registry.ts'),
        import('../agents/installed-programs.ts'),
        import('../agents/installed-programs.ts'),
      ]);
    const programs = programsIn(dataDir);
    return await Promise.all(
      agentPrograms.map(async (program): Promise<AgentProgramEntry> => {
        const { agent, title, packageName, version } = program;
        const used = (await findUsed(programs, program))?.version ?? null;
        const installed = await installedVersions(programs, program);
        return { agent, title, packageName, version, ready: used !== null, used, installed };
      }),
    );
  },
  uninstallAgent: async ({ agent, dataDir, version }) => {
    const [{ agentProgram }, { removeProgram }, { programsDir: programsIn }] = await Promise.all([
      import('../agents/registry.ts'),
      import('../agents/install-program.ts'),
      import('../agents/installed-programs.ts'),
    ]);
    return await removeProgram(programsIn(dataDir), agentProgram(agent), version);
  },
};

/** Made where it is missing. */
async function dataFolderOf(dataDir: string): Promise<string> {
  const { dataFolder } = await import('../session/data-folders.ts');
  return dataFolder(dataDir);
}
