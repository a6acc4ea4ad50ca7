/** What a server that has come up tells whoever started it. */

import type { ServedFacts } from '../context.ts';
import type { ProgramContext } from '../program.ts';
import { toWord } from '../texts.ts';

type About = Pick<ProgramContext, 'version' | 'defaults'>;

export function greeting({ url, dataDir, adminTokenPath, loginUrl }: ServedFacts, about: About): string {
  const { version, defaults } = about;
  const auth = `-H "Authorization: Bearer $(cat ${toWord(adminTokenPath)})"`;
  // Another terminal may not have the variable.
  const usual = dataDir === defaults.dataDir && defaults.variables?.CELLA_DATA_DIR === undefined;
  const where = usual ? '' : ` --data ${toWord(dataDir)}`;
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
