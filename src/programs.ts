/** The programs of coding agents on this machine, for the command line. Heavy parts load when used. */

import type { AgentProgramEntry, Programs } from './cli/context.ts';

export const programsHere: Programs = {
  installAgent: async ({ agent, dataDir, version }, work) => {
    const [{ agentProgram }, { installProgram }, folder] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/install.ts'),
      dataFolderOf(dataDir),
    ]);
    const program = agentProgram(agent);
    return { agent, ...(await installProgram(program, { dataDir: folder, version, ...work })) };
  },
  listAgentPrograms: async (dataDir) => {
    const [{ agentPrograms }, { installedVersions }] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/folder.ts'),
    ]);
    return await Promise.all(
      agentPrograms.map(async (program): Promise<AgentProgramEntry> => {
        const { agent, title, packageName, version } = program;
        const installed = await installedVersions(dataDir, program);
        const ready = installed.some(({ missing }) => missing.length === 0);
        return { agent, title, packageName, version, ready, installed };
      }),
    );
  },
  removeAgent: async ({ agent, dataDir, version }) => {
    const [{ agentProgram }, { removeProgram }] = await Promise.all([
      import('./agents/registry.ts'),
      import('./agents/programs/install.ts'),
    ]);
    return await removeProgram(dataDir, agentProgram(agent), version);
  },
};

/** Made where it is missing. */
async function dataFolderOf(dataDir: string): Promise<string> {
  const { dataFolder } = await import('./session/data-folder.ts');
  return dataFolder(dataDir);
}
