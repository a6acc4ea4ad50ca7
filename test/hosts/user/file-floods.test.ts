/** Floods of the files API on an ordinary user's host, where the server reaches files itself. */

import { fileFloods } from '../../server/files/floods.ts';

fileFloods();
