/** Floods of the files API on a host that runs as root, where one process reaches the files of all users. */

import { fileFloods } from './floods.ts';

fileFloods();
