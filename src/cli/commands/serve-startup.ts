import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { ServerConfig } from '../../settings/server-config.ts';
import type { CommandContext } from '../define-command.ts';
import { shellQuote } from '../format.ts';

type StartupContext = Pick<CommandContext, 'version' | 'defaults'>;

/** A server that has started. */
export interface StartedServer {
  readonly url: string;
  readonly dataDir: string;
  readonly adminTokenPath: string;
  readonly loginUrl: string;
}

/** Risks of giving members a folder that the host reaches as root: they can change what only root may, and so become root. */
const ROOT_RISKS: Readonly<Record<string, string>> = {
  folders: 'name any folder of this machine for their sessions',
  unsandboxed: 'run code without a sandbox',
  'in-process': 'run code in the process of the server',
};

/** Warnings about what members may do; empty unless the server runs as root. */
function rootWarnings(membersMay: readonly string[] = [], isRoot = process.getuid?.() === 0): string[] {
  return membersMay.flatMap((privilege) => {
    const what = isRoot ? ROOT_RISKS[privilege] : undefined;
    if (what === undefined) return [];
    return [
      `--members-may ${privilege}: members may ${what}, and this server runs as root. Treat every member as root here.`,
    ];
  });
}

/** What the operator should know before the server is used. */
export async function startWarnings({
  membersMay,
  python,
}: Pick<ServerConfig, 'membersMay' | 'python'>): Promise<string[]> {
  const { missingPythonWarning } = await import('../../interpreter/find-python.ts');
  const noPython = await missingPythonWarning(python);
  return [...(await configWarnings(membersMay)), ...(noPython ? [noPython] : [])];
}

/** Warnings about settings and limits. `cella doctor` checks for Python itself. */
export async function configWarnings(membersMay: readonly string[] | undefined): Promise<string[]> {
  const { openFilesWarning } = await import('../../server/startup-checks.ts');
  const tooFewFiles = openFilesWarning();
  return [...rootWarnings(membersMay), ...(tooFewFiles ? [tooFewFiles] : [])];
}

export async function startupMessage(
  { url, dataDir, adminTokenPath, loginUrl }: StartedServer,
  about: StartupContext,
): Promise<string> {
  const { version, defaults } = about;
  const auth = `-H "Authorization: Bearer $(cat ${shellQuote(adminTokenPath)})"`;
  // Another terminal may not have the variable set.
  const usual = dataDir === defaults.dataDir && defaults.variables?.CELLA_DATA_DIR === undefined;
  const where = usual ? '' : ` --data ${shellQuote(dataDir)}`;
  const cella = await typedCella();
  return `Cella ${version} serves ${dataDir} at ${url}

  log in once:     ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  ${cella} run${where} --key first -c '6 * 7'

The same over HTTP:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}

/** In a checkout that is not linked, the shell cannot find `cella`. */
async function typedCella(): Promise<string> {
  const { hostSearchPath } = await import('../../interpreter/find-python.ts');
  const onPath = hostSearchPath()
    .split(delimiter)
    .some((folder) => existsSync(join(folder, 'cella')));
  if (onPath) return 'cella';
  const { packageFile } = await import('../../interpreter/package-file.ts');
  return `node ${shellQuote(packageFile('bin/cella.cjs'))}`;
}
