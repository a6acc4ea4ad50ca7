/** `cella chat` through pipes: every command, what is wrong with a line, and what is left when it ends. */

import { chatCommands } from './commands.ts';
import { chatLife } from './lifecycle.ts';
import { useChats } from './pipes.ts';
import { chatPython } from './python.ts';
import { chatShell } from './shell.ts';
import { chatState } from './state.ts';

const chats = useChats();

chatLife(chats);
chatPython(chats);
chatShell(chats);
chatState(chats);
chatCommands(chats);
