/** `cella chat` through pipes: every command, what is wrong with a line, and what is left when it ends. */

import { chatCommands } from './chat-commands.ts';
import { chatLife } from './chat-life.ts';
import { useChats } from './chat-pipes.ts';
import { chatPython } from './chat-python.ts';
import { chatShell } from './chat-shell.ts';
import { chatState } from './chat-state.ts';

const chats = useChats();

chatLife(chats);
chatPython(chats);
chatShell(chats);
chatState(chats);
chatCommands(chats);
