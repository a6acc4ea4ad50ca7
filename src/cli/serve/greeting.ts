/** What a server that has come up tells whoever started it. */

import type { ServedFacts } from '../context.ts';
import { toWord } from '../texts.ts';

export function greeting({ url, dataDir, adminTokenPath, loginUrl }: ServedFacts, version: string): string {
  const auth = `-H "Authorization: Bearer $(cat ${toWord(adminTokenPath)})"`;
  return `Cella ${version} serves ${dataDir} at ${url}

  log in, once:    ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}
