/** Definitions of tools, and what programs and servers answer that are tools. */

import type { Target } from '../engine.ts';

export async function tools(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { parseTool } = await import('../../../src/namespaces/tools/parse.ts');
  return {
    name: 'tools',
    parser: [{ file: 'namespaces/tools/parse.ts' }],
    words: [
      'type: http\n',
      'type: mcp\n',
      '&a ',
      '*a',
      '- ',
      ': ',
      '{',
      '}',
      '[',
      '!!binary ',
      '|\n',
      '"',
      '? ',
      '<<: ',
    ],
    take: (input) => {
      try {
        parseTool(input.toString(), 'fuzzed');
      } catch (error) {
        if (!(error instanceof CellaError) || error.code !== 'TOOL_INVALID') throw error;
      }
    },
  };
}
