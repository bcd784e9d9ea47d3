"""From a turn of conversation to drafts of memories: what is asked, what is understood, what is believed. Pure."""
