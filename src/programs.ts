/** The programs of coding agents on this machine, for the command line. Heavy parts load when used. */

import type { AgentProgramEntry, Programs } from './cli/context.ts';

export const programsHere: Programs = {
  installAgent: async ({ agent, dataDir, version }, work) => {
    const [{ agentProgram }, { installProgram }, { programsIn }, folder] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/install.ts'),
      import('./agents/programs/folder.ts'),
      dataFolderOf(dataDir),
    ]);
    const program = agentProgram(agent);
    return { agent, ...(await installProgram(program, { programs: programsIn(folder), version, ...work })) };
  },
  listAgentPrograms: async (dataDir) => {
    const [{ agentPrograms }, { installedVersions, programsIn }, { findUsed }] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/folder.ts'),
      import('./agents/programs/used.ts'),
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
  removeAgent: async ({ agent, dataDir, version }) => {
    const [{ agentProgram }, { removeProgram }, { programsIn }] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/install.ts'),
      import('./agents/programs/folder.ts'),
    ]);
    return await removeProgram(programsIn(dataDir), agentProgram(agent), version);
  },
};

/** Made where it is missing. */
async function dataFolderOf(dataDir: string): Promise<string> {
  const { dataFolder } = await import('./session/data-folders.ts');
  return dataFolder(dataDir);
}
