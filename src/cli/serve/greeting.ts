/** What a server that has come up tells whoever started it. */

import { openFilesWarning } from '../../lib/open-files.ts';
import type { StartedServer } from '../context.ts';
import { shellQuote } from '../format.ts';
import type { ProgramContext } from '../program.ts';

type About = Pick<ProgramContext, 'version' | 'defaults'>;

/** For members: a folder that the host reaches as root lets them change what root alone may, and so become root. */
const AS_ROOT: Readonly<Record<string, string>> = {
  folders: 'name any folder of this machine for their sessions',
  unsandboxed: 'run code without a sandbox',
  'in-process': 'run code in the process of the server',
};

/** What the operator should know of what members may; nothing where the server does not run as root. */
export function rootWarnings(membersMay: readonly string[] = [], isRoot = process.getuid?.() === 0): string[] {
  return membersMay.flatMap((privilege) => {
    const what = isRoot ? AS_ROOT[privilege] : undefined;
    if (what === undefined) return [];
    return [
      `--members-may ${privilege}: members may ${what}, and this server runs as root. Treat every member as root here.`,
    ];
  });
}

/** What the operator should know before anybody uses the server. */
export function startWarnings(membersMay: readonly string[] | undefined): string[] {
  const tooFewFiles = openFilesWarning();
  return [...rootWarnings(membersMay), ...(tooFewFiles ? [tooFewFiles] : [])];
}

export function greeting({ url, dataDir, adminTokenPath, loginUrl }: StartedServer, about: About): string {
  const { version, defaults } = about;
  const auth = `-H "Authorization: Bearer $(cat ${shellQuote(adminTokenPath)})"`;
  // Another terminal may not have the variable.
  const usual = dataDir === defaults.dataDir && defaults.variables?.CELLA_DATA_DIR === undefined;
  const where = usual ? '' : ` --data ${shellQuote(dataDir)}`;
  return `Cella ${version} serves ${dataDir} at ${url}

  log in, once:    ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  cella run${where} --agent first -c '6 * 7'

The same over HTTP:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}
