/** What the stand-in model answers to each `#word` of a prompt. */

import type { FixtureFileResponse } from '@copilotkit/aimock';

export interface Asked {
  readonly tag: string;
  readonly rest: string;
  /** Of the tools that it has called since. */
  readonly results: readonly string[];
  /** Every `#word` of the conversation. */
  readonly earlier: readonly string[];
}

const usage = { input_tokens: 11, output_tokens: 7 };

const reasoning = 'Let me think about it.';
const todos = [
  { content: 'Look', status: 'completed', activeForm: 'Looking' },
  { content: 'Leap', status: 'in_progress', activeForm: 'Leaping' },
];
const looksAround = (path: string) => ({
  description: 'Look around',
  prompt: `#run ls ${path}`,
  subagent_type: 'general-purpose',
});

type Answer = Exclude<FixtureFileResponse, (...args: never) => unknown>;

export function answerTo(asked: Asked): never {
  // The type that aimock wants of a factory leaves out what its own loader takes.
  return { ...answer(asked), usage } as never;
}

function answer({ tag, rest, results, earlier }: Asked): Partial<Answer> {
  if (results.length > 0) return { content: `The tools said: ${results.join(' | ')}` };
  const [path = '', ...words] = rest.split(' ');
  switch (tag) {
    case 'write':
      return calls(earlier, 'I write.', ['Write', { file_path: path, content: `${words.join(' ') || 'written'}\n` }]);
    case 'run':
      return calls(earlier, 'I run.', ['Bash', { command: rest, description: 'Runs a command' }]);
    case 'both':
      return calls(
        earlier,
        'I do both.',
        ['Write', { file_path: path, content: 'written\n' }],
        ['Bash', { command: `touch ${path}.too`, description: 'Touches a file' }],
      );
    case 'slow':
      return { content: 'word '.repeat(2000) };
    case 'think':
      return { content: 'I have thought.', reasoning };
    case 'todo':
      return calls(earlier, 'I plan.', ['TodoWrite', { todos }]);
    case 'ask': {
      const options = [
        { label: 'red', description: 'like blood' },
        { label: 'blue', description: 'like the sky' },
      ];
      const questions = [{ question: 'Which colour?', header: 'Colour', multiSelect: false, options }];
      return calls(earlier, 'I ask.', ['AskUserQuestion', { questions }]);
    }
    case 'delegate':
      return calls(earlier, 'I delegate.', ['Agent', looksAround(path)]);
    case 'muse':
      return { ...calls(earlier, 'I do it all.', ['TodoWrite', { todos }], ['Agent', looksAround(path)]), reasoning };
    case 'cell':
      return calls(earlier, 'I compute.', ['mcp__cella__run_code', { code: rest }]);
    case 'mcp':
      return calls(earlier, 'I call.', ['mcp__probe__echo', { text: 'ping' }]);
    case 'profile': {
      const scout = { description: 'Look around', prompt: '#plain', subagent_type: 'scout' };
      return calls(earlier, 'I use both.', ['Skill', { skill: 'profile:brewing', args: rest }], ['Agent', scout]);
    }
    case 'remember':
      return { content: `You said: ${earlier.join(' ')}` };
    default:
      return { content: 'Hello from the stand-in model.' };
  }
}

/** Each call of a conversation has a name of its own: a program takes a second of one name for the first. */
function calls(
  earlier: Asked['earlier'],
  content: string,
  ...list: readonly (readonly [name: string, input: object])[]
): Partial<Answer> {
  const toolCalls = list.map(([name, input], at) => ({
    name,
    arguments: JSON.stringify(input),
    id: `toolu_${earlier.length}_${at}_${name}`,
  }));
  return { content, toolCalls };
}
